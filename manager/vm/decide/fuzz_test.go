package decide

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"vmop/internal/printable"
)

// FuzzTermination proves that any termination message of a container leads to a printable, short outcome.
func FuzzTermination(f *testing.F) {
	for _, text := range []string{
		"", "OOM", `{"cause": "guest", "message": "bye"}`, `{"cause": "\u001b[2J", "message": "a\nb", "exitCode": 1}`,
		"{\"cause\": \"crashed\", \"message\": \"x:\\n  1 | a\\n    | ^\\n\"}", "\xff\xfe\x00", `{"cause": 1}`,
	} {
		f.Add(text, int32(1), true)
	}
	f.Fuzz(func(t *testing.T, message string, code int32, gone bool) {
		end := &corev1.ContainerStateTerminated{ExitCode: code, Message: message}
		s := is(with(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: end}}))
		if gone {
			s.VM.Status.Runner = nil
		}
		_ = PhaseOf(s)
		o := OutcomeIn(s.VM, s.Pod)
		require.NotNil(t, o)
		for _, text := range []string{o.Cause, o.Reason, o.Message} {
			require.Equal(t, printable.Line(text), text)
			require.LessOrEqual(t, len(text), MaxMessage+len("…"))
		}
	})
}
