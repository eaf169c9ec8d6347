package machine

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

func withAffinity(c *Config) {
	c.Plan.Rules = plan.Rules{plan.Affinity{CPUs: [][]int{{1}}}}
	c.Misplaced = []string{"qemu does not run on 8 alone"}
}

const thread = `[{"cpu-index": 0, "thread-id": 70}]`

// The guest's CPUs are placed before the guest runs. A CPU that can't be placed does not prevent the VM from running,
// and the status shows the problem.
func TestCPUsOfTheGuestArePlacedBeforeItRuns(t *testing.T) {
	t.Parallel()
	k := fresh(t, withAffinity)
	k.state.Connected(k.now)
	k.state.Greeted("7.2.22")
	k.does("query-cpus-fast")
	k.returns("query-cpus-fast", thread)
	k.does("Place 70 [1]", "settled")
	k.state.Placed(reconcile.Placement{Thread: 70, CPUs: []int{1}}, errors.New("it is offline"), k.now)
	k.state.Release(1, Booting{Began: k.now}, k.now)
	k.does("cont")
	k.isDone()
	k.nextStep()
	var messages []string
	for _, p := range k.known.Problems {
		require.Equal(t, "vmType", p.Path)
		messages = append(messages, p.Message)
	}
	require.ElementsMatch(t, []string{
		"qemu does not run on 8 alone", "the guest's CPU 0 does not run on 1 of the host alone: it is offline",
	}, messages)
}

// A later runner can place CPUs without information from the earlier runner.
func TestCPUsAreAskedForAfterAdoption(t *testing.T) {
	t.Parallel()
	k := found(t, withAffinity)
	k.state.Connected(k.now)
	k.state.Greeted("7.2.22")
	k.state.Adopt(Booting{Began: k.now}, k.now)
	k.nextStep()
	k.returns("query-cpus-fast", thread)
	k.other = nil
	k.nextStep()
	require.Contains(t, k.other, "Place 70 [1]")
}
