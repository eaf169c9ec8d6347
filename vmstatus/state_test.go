package vmstatus

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The permitted transitions between all pairs of states, row by row.
func TestStatesFollowEachOtherInOneDirection(t *testing.T) {
	t.Parallel()
	states := []State{
		StateInitializing, StateStarting, StateBooting, StateRunning, StateBooted, StateTerminating, StateStopped,
	}
	allowed := map[State]string{
		"":                "yes yes yes yes yes yes yes",
		StateInitializing: "yes yes yes yes yes yes yes",
		StateStarting:     "no  yes yes yes yes yes yes",
		StateBooting:      "no  no  yes yes yes yes yes",
		StateRunning:      "no  no  yes yes yes yes yes", // a reset guest boots again
		StateBooted:       "no  no  yes no  yes yes yes", // a reset guest boots again
		StateTerminating:  "no  no  no  no  no  yes yes",
		StateStopped:      "no  no  no  no  no  no  yes",
	}
	for from, row := range allowed {
		for i, word := range strings.Fields(row) {
			require.Equal(t, word == "yes", from.CanEnter(states[i]), "%s -> %s", from, states[i])
		}
		require.False(t, from.CanEnter("Sleeping"))
	}
}

// The properties derived from a state and from the cause of an end.
func TestStatesAndCauses(t *testing.T) {
	t.Parallel()
	for state, want := range map[State]Reason{
		StateInitializing: ReasonRunnerStarted, StateStarting: ReasonRunnerStarted, StateBooting: ReasonVMStarted,
		StateRunning: ReasonNoGuestAgent, StateBooted: ReasonVMBooted, StateTerminating: ReasonVMTerminating,
		StateStopped: ReasonVMStopped,
	} {
		require.Equal(t, want, state.DefaultReason())
		require.Equal(t, state == StateBooting || state == StateRunning || state == StateBooted, state.Active(), state)
		require.True(t, state.Known())
	}
	require.False(t, State("Sleeping").Known())
	for cause, crash := range map[Cause]bool{
		CauseGuest: false, CauseReset: false, CausePanic: true, CauseTPM: true, CauseAsked: false, CauseForced: false,
		CauseCrashed: true, CauseKilled: true, CauseStart: false, CauseMoved: false, CauseUnknown: false,
	} {
		require.Equal(t, crash, cause.Crash(), cause)
	}
}
