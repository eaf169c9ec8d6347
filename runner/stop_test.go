package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/config"
)

// What a forced stop takes at most fits into what a pod has for it.
func TestAForcedStopFitsIntoTheGracePeriod(t *testing.T) {
	t.Parallel()
	const lastReport = 4 * time.Second        // of cmd/vmrunner
	most := agentTime + termTime + lastReport // a helper that obeys
	for _, step := range stopSteps(0, false) {
		most += step.time
	}
	require.LessOrEqual(t, most, config.ForcedStop)
}

// The guest's time is shared by the ways of asking it; force comes after, with
// times of its own.
func TestStopStepsShareTheGuestsTime(t *testing.T) {
	t.Parallel()
	force := []stopStep{{byQuit, quitTime}, {bySIGTERM, termTime}, {bySIGKILL, termTime}}
	tests := []struct {
		what    string
		timeout time.Duration
		agent   bool
		want    []stopStep
	}{
		{"with an agent, half the time is left for the power button", 900 * time.Second, true, []stopStep{{byAgent, 450 * time.Second}, {byACPI, 450 * time.Second}}},
		{"without, the power button has all of it", 900 * time.Second, false, []stopStep{{byACPI, 900 * time.Second}}},
		{"no time is lost by halving", 5 * time.Nanosecond, true, []stopStep{{byAgent, 2}, {byACPI, 3}}},
		{"no time, no question", 0, true, nil},
		{"no time and no agent", 0, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, append(tt.want, force...), stopSteps(tt.timeout, tt.agent))
			var asking time.Duration
			for _, step := range stopSteps(tt.timeout, tt.agent) {
				if !step.how.forces() {
					asking += step.time
				}
			}
			require.Equal(t, tt.timeout, asking)
		})
	}
}

func TestOnlyTheLastMethodsForce(t *testing.T) {
	t.Parallel()
	for how, forces := range map[method]bool{byAgent: false, byACPI: false, byQuit: true, bySIGTERM: true, bySIGKILL: true} {
		require.Equal(t, forces, how.forces(), how)
	}
}
