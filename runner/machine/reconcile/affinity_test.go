package reconcile_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

const askThreads = "query-cpus-fast"

// onCPUs returns a rule for the guest's CPUs 0, 1 and 3.
func onCPUs() plan.Rule { return plan.Affinity{CPUs: [][]int{{4}, {5, 6}, nil, {7}}} }

// threads returns an answer to query-cpus-fast.
func threads(ids ...int) string {
	var list []map[string]any
	for index, id := range ids {
		list = append(list, map[string]any{"cpu-index": index, "thread-id": id, "target": "x86_64"})
	}
	b, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// places requires that these threads are placed now, and answers with err.
func (k *talk) places(err error, want ...reconcile.Placement) {
	k.t.Helper()
	step := k.machine.Next(k.want, k.now)
	require.Equal(k.t, want, step.Placements)
	require.Empty(k.t, step.Requests)
	for _, p := range step.Placements {
		k.machine.Placed(p, err, k.now)
	}
}

// In a newly started machine, the threads are queried only after the machine has all its wanted CPUs.
func TestCPUsOfTheGuestArePlacedOnceTheyAreThere(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, onCPUs(), fourCPUs())
	k.want.CPUs = 2
	k.says(askCPUs)
	k.returns(slots(4))
	k.says(add(1, "cpu-1"))
	k.isDone()
	k.says(askThreads)
	k.returns(threads(100, 101))
	k.places(nil, reconcile.Placement{Thread: 100, CPUs: []int{4}}, reconcile.Placement{Thread: 101, CPUs: []int{5, 6}})
	k.silent()

	k.want.CPUs = 4 // later CPUs are placed as well, and the others are left unchanged
	k.says(add(2, "cpu-2"), add(3, "cpu-3"))
	k.isDone()
	k.says(askThreads)
	k.returns(threads(100, 101, 102, 103))
	k.places(nil, reconcile.Placement{Thread: 103, CPUs: []int{7}})
	k.silent()
	k.complains()
}

// An adopted machine is checked immediately, because the earlier runner may have been killed before it placed a CPU. A
// CPU that was unplugged and plugged again has a new thread.
func TestCPUsOfAMachineThatWasFoundArePlaced(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true}, fourCPUs(), onCPUs())
	k.want.CPUs = 2
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1"))
	k.says(askThreads)
	k.returns(threads(100, 101))
	k.places(nil, reconcile.Placement{Thread: 100, CPUs: []int{4}}, reconcile.Placement{Thread: 101, CPUs: []int{5, 6}})
	k.silent()
	k.want.CPUs = 3
	k.says(add(2, "cpu-2"))
	k.isDone()
	k.says(askThreads)
	k.returns(threads(100, 201, 102))
	k.places(nil, reconcile.Placement{Thread: 201, CPUs: []int{5, 6}})
	k.silent()

	k.want.CPUs = 1 // the id of an ended thread may belong to another thread
	k.says("query-kvm")
	k.returns(kvm)
	k.says(del("cpu-2"), del("cpu-1"))
	k.isDone()
	k.passes(time.Second)
	k.event("DEVICE_DELETED", `{"device": "cpu-2", "path": "/machine/peripheral/cpu-2"}`)
	k.says(askCPUs)
	k.returns(slots(4))
	k.says(askThreads)
	k.returns(threads(100))
	k.silent()
	k.want.CPUs = 2
	k.says(add(1, "cpu-1"))
	k.isDone()
	k.says(askThreads)
	k.returns(threads(100, 201))
	k.places(nil, reconcile.Placement{Thread: 201, CPUs: []int{5, 6}})
	k.silent()
}

// A placement that the host refuses is reported as a problem and retried later, because a CPU may come online.
func TestACPUThatCannotBePlacedIsAProblem(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, onCPUs())
	k.says(askThreads)
	k.returns(threads(100, 101))
	k.places(errors.New("none is online"),
		reconcile.Placement{Thread: 100, CPUs: []int{4}}, reconcile.Placement{Thread: 101, CPUs: []int{5, 6}})
	k.complains("vmType: the guest's CPU 0 does not run on 4 of the host alone: none is online; " +
		"the guest's CPU 1 does not run on 5-6 of the host alone: none is online")
	k.waits(500 * time.Millisecond)
	k.passes(500 * time.Millisecond)
	k.says(askThreads)
	k.returns("error: not now")
	k.complains("vmType: ask for the threads of the guest's CPUs: not now")
	k.passes(time.Second)
	k.says(askThreads)
	k.returns(threads(100, 101))
	k.places(nil, reconcile.Placement{Thread: 100, CPUs: []int{4}}, reconcile.Placement{Thread: 101, CPUs: []int{5, 6}})
	k.complains()
	k.silent()
}

// Implausible answers about threads cause no endless placements.
func TestThreadsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, onCPUs())
	k.says(askThreads)
	k.returns(`[{"cpu-index": -1, "thread-id": 1}, {"cpu-index": 9, "thread-id": 2}, {"cpu-index": 0, "thread-id": 7},
		{"cpu-index": 0, "thread-id": 8}]`)
	first, second := reconcile.Placement{Thread: 7, CPUs: []int{4}}, reconcile.Placement{Thread: 8, CPUs: []int{4}}
	k.places(nil, first, second)
	k.machine.Placed(reconcile.Placement{Thread: 5}, nil, k.now)
	k.silent()
}
