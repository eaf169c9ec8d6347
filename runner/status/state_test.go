package status

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

func TestUsualReasons(t *testing.T) {
	t.Parallel()
	for state, reason := range map[vmstatus.State]vmstatus.Reason{
		vmstatus.StateInitializing: "RunnerStarted", vmstatus.StateStarting: "RunnerStarted",
		vmstatus.StateBooting: "VmStarted",
		vmstatus.StateBooted:  "VmBooted", vmstatus.StateTerminating: "VmTerminating",
		vmstatus.StateStopped: "VmStopped",
	} {
		s, err := Fold(Status{}, at(0), Entered{State: state})
		require.NoError(t, err)
		require.Equal(t, reason, s.Reason)
	}
}
