package cluster

import (
	"context"
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vmop/manager/vm/decide"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
	"vmop/manager/web/stream"
)

// changedMeanwhile is why a change is refused that was made of something older.
const changedMeanwhile = fleet.Refusal("the VM has been changed meanwhile: look at it again, and repeat this")

// asRefusal makes what the user can understand and change a Refusal.
func asRefusal(err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, stream.ErrUnreachable):
		return fleet.Refusal(err.Error())
	case apierrors.IsNotFound(err):
		return fleet.ErrNotFound
	case apierrors.IsConflict(err):
		return changedMeanwhile
	}
	if text := refusalCauses(err); text != "" {
		return fleet.Refusal(text)
	}
	return describe.Refusal(err)
}

// refusalCauses returns why the API server refuses something, a line for each field; "" if that is
// nothing that a user can change.
func refusalCauses(err error) string {
	faults := faultsOf(err)
	lines := make([]string, len(faults))
	for i, f := range faults {
		if lines[i] = f.Message; f.Path != "" {
			lines[i] = f.Path + ": " + f.Message
		}
	}
	return strings.Join(lines, "\n")
}

// faultsOf returns what the API server, or a policy of the cluster, says is wrong with a VM; nil if
// an error is about something else, such as the rights of the manager.
func faultsOf(err error) (all fleet.Faults) {
	ofRBAC := regexp.MustCompile(`is forbidden: User ".*" cannot `)
	if decide.Refused(err) == nil || ofRBAC.MatchString(err.Error()) {
		return nil
	}
	valueOf := regexp.MustCompile(`^(Invalid|Unsupported) value: (("([^"\\]|\\.)*"|[^ :]+): )?`)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, c := range status.Status().Details.Causes {
			if c.Field == "metadata.uid" { // it is another VM of that name
				return fleet.Faults{{Message: string(changedMeanwhile)}}
			}
			all = append(all, fleet.Fault{
				Path: c.Field, Message: decide.Readable(valueOf.ReplaceAllString(c.Message, "")),
			})
		}
	}
	if all != nil {
		return all
	}
	if apierrors.IsInvalid(err) { // a test in a patch, which the API server says no more about
		return fleet.Faults{{Message: string(changedMeanwhile)}}
	}
	text := err.Error()
	unknown := regexp.MustCompile(`unknown field "([^"]+)"`)
	for _, found := range unknown.FindAllStringSubmatch(text, -1) {
		all = append(all, fleet.Fault{Path: found[1], Message: "there is no such field"})
	}
	if all != nil {
		return all
	}
	denials := regexp.MustCompile(`(denied the request|denied request|is forbidden): `) // a policy's words follow
	if found := denials.FindAllStringIndex(text, -1); found != nil {
		text = text[found[len(found)-1][1]:]
	}
	return fleet.Faults{{Message: decide.Readable(text)}}
}
