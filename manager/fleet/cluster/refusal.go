package cluster

import (
	"context"
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	valueOf := regexp.MustCompile(`^(Invalid|Unsupported) value: ("([^"\\]|\\.)*"|[^ :]+): `)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return decide.Readable(err.Error())
	}
	var lines []string
	if details := status.Status().Details; details != nil {
		for _, c := range details.Causes {
			if c.Type == metav1.CauseTypeUnexpectedServerResponse { // a test of a patch
				return string(changedMeanwhile)
			}
			lines = append(lines, decide.Readable(c.Field+": "+valueOf.ReplaceAllString(c.Message, "")))
		}
	}
	if len(lines) > 0 {
		return strings.Join(lines, "\n")
	}
	text := err.Error()
	denials := regexp.MustCompile(`(denied the request|denied request|is forbidden): `) // a policy's words follow
	if all := denials.FindAllStringIndex(text, -1); all != nil {
		text = text[all[len(all)-1][1]:]
	}
	return decide.Readable(text)
}
