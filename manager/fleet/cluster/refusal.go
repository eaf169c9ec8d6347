package cluster

import (
	"context"
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vmop/manager/decide"
	"vmop/manager/fleet"
	"vmop/manager/fleet/describe"
	"vmop/manager/stream"
)

// changedMeanwhile is why a change is refused that was made of something older.
const changedMeanwhile = fleet.Refusal("the VM has been changed meanwhile: look at it again, and repeat this")

// explain makes what the user can understand and change a Refusal.
func explain(err error) error {
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
	if text := causes(err); text != "" {
		return fleet.Refusal(text)
	}
	return describe.Refusal(err)
}

// causes returns why the API server refuses something, a line for each field; "" if that is
// nothing that a user can change.
func causes(err error) string {
	ofRBAC := regexp.MustCompile(`is forbidden: User ".*" cannot `) // the manager lacks a right
	if decide.Refused(err) == nil || ofRBAC.MatchString(err.Error()) {
		return ""
	}
	valueOf := regexp.MustCompile(`^(Invalid|Unsupported) value: (("([^"\\]|\\.)*"|[^ :]+): )?`)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return decide.Readable(err.Error())
	}
	var lines []string
	if details := status.Status().Details; details != nil {
		for _, c := range details.Causes {
			if c.Field == "metadata.uid" { // it is another VM of that name
				return string(changedMeanwhile)
			}
			lines = append(lines, decide.Readable(c.Field+": "+valueOf.ReplaceAllString(c.Message, "")))
		}
	}
	switch {
	case len(lines) > 0:
		return strings.Join(lines, "\n")
	case apierrors.IsInvalid(err): // a test in a patch, which the API server says no more about
		return string(changedMeanwhile)
	}
	text := err.Error()
	denials := regexp.MustCompile(`(denied the request|denied request|is forbidden): `) // a policy's words follow
	if all := denials.FindAllStringIndex(text, -1); all != nil {
		text = text[all[len(all)-1][1]:]
	}
	return decide.Readable(text)
}
