package status

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// Every pair of states, row by row: who may follow whom.
func TestStatesFollowEachOtherInOneDirection(t *testing.T) {
	t.Parallel()
	states := []vmstatus.State{vmstatus.StateInitializing, vmstatus.StateStarting, vmstatus.StateBooting, vmstatus.StateBooted, vmstatus.StateTerminating, vmstatus.StateStopped}
	allowed := map[vmstatus.State]string{
		"":           "yes yes yes yes yes yes",
		Initializing: "yes yes yes yes yes yes",
		Starting:     "no  yes yes yes yes yes",
		Booting:      "no  no  yes yes yes yes",
		Booted:       "no  no  yes yes yes yes", // a reset guest boots again
		Terminating:  "no  no  no  no  yes yes",
		Stopped:      "no  no  no  no  no  yes",
	}
	for from, row := range allowed {
		for i, word := range fields(row) {
			require.Equal(t, word == "yes", from.CanEnter(states[i]), "%s -> %s", from, states[i])
		}
		require.False(t, from.CanEnter("Sleeping"))
	}
}

func TestUsualReasons(t *testing.T) {
	t.Parallel()
	for state, reason := range map[vmstatus.State]vmstatus.Reason{
		Initializing: "RunnerStarted", Starting: "RunnerStarted", Booting: "VmStarted",
		Booted: "VmBooted", Terminating: "VmTerminating", Stopped: "VmStopped",
	} {
		s, err := Fold(Status{}, at(0), Entered{State: state})
		require.NoError(t, err)
		require.Equal(t, reason, s.Reason)
	}
}
