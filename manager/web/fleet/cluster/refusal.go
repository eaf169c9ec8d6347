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

// changedMeanwhile refuses a change that is based on an older state of the VM.
const changedMeanwhile = fleet.Refusal("the VM has changed in the meantime: check it, and repeat this")

// asRefusal converts errors that the user can understand and fix to a Refusal.
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

// refusalCauses returns why the API server refuses a write, one line per field; "" if the user can't fix the problem.
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

// faultsOf returns the errors in a VM's definition that the API server or a policy of the cluster reports. It returns
// nil if err has another cause, such as missing permissions of the manager.
func faultsOf(err error) (all fleet.Faults) {
	ofRBAC := regexp.MustCompile(`is forbidden: User ".*" cannot `)
	if decide.Refused(err) == nil || ofRBAC.MatchString(err.Error()) {
		return nil
	}
	valueOf := regexp.MustCompile(`^(Invalid|Unsupported) value: (("([^"\\]|\\.)*"|[^ :]+): )?`)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, c := range status.Status().Details.Causes {
			if c.Field == "metadata.uid" { // another VM has this name now
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
	if apierrors.IsInvalid(err) { // a failed test in a patch; the API server gives no details
		return fleet.Faults{{Message: string(changedMeanwhile)}}
	}
	text := err.Error()
	paths, hints := decide.UnknownFields(err)
	for i, path := range paths {
		f := fleet.Fault{Path: path, Message: "there is no such field"}
		if hints[i] != "" {
			f.Message += " (" + hints[i] + ")"
		}
		all = append(all, f)
	}
	if all != nil {
		return all
	}
	denials := regexp.MustCompile(`(denied the request|denied request|is forbidden): `) // the policy's message follows
	if found := denials.FindAllStringIndex(text, -1); found != nil {
		text = text[found[len(found)-1][1]:]
	}
	return fleet.Faults{{Message: decide.Readable(text)}}
}
