package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

const (
	askCPUs  = "query-hotpluggable-cpus"
	kvm, tcg = `{"enabled": true, "present": true}`, `{"enabled": false, "present": true}`
)

func fourCPUs() plan.Rule { return plan.CPUs{Boot: 1, Maximum: 4, ID: "cpu-%d"} }

func add(core int, id string) string {
	return fmt.Sprintf(`device_add {"core-id":%d,"driver":"max-x86_64-cpu","id":"%s"}`, core, id)
}

func del(id string) string { return fmt.Sprintf(`device_del {"id":"%s"}`, id) }

func TestCPUsAreThereBeforeTheGuestRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want   int
		there  string
		plugs  []string
		exists int
	}{
		"the lowest places are taken first": {3, slots(4), []string{add(1, "cpu-1"), add(2, "cpu-2")}, 3},
		"ids in use are left out":           {3, slots(4, "cpu-2"), []string{add(2, "cpu-1")}, 3},
		"a gap is filled":                   {4, slots(4, "cpu-1", "", "cpu-3"), []string{add(2, "cpu-2")}, 4},
		"never more than there is a place for": {
			9, slots(4),
			[]string{add(1, "cpu-1"), add(2, "cpu-2"), add(3, "cpu-3")},
			4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, reconcile.Start{}, fourCPUs())
			k.want.CPUs = c.want
			k.says(askCPUs)
			k.returns(c.there)
			k.says(c.plugs...)
			k.isDone()
			k.silent()
			require.Equal(t, c.exists, k.machine.Facts().CPUs)
		})
	}
}

func TestOneCPUNeedsNoQuestion(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, fourCPUs())
	k.want.CPUs = 1
	k.silent()
	require.Equal(t, 1, k.machine.Facts().CPUs)

	k = newTalk(t, reconcile.Start{Running: true}, fourCPUs())
	k.want.CPUs = 1
	k.says(askCPUs) // earlier commands to an adopted machine are unknown
	k.returns(slots(4))
	k.silent()
}

func TestCPUsBeyondThePlacesAreAProblem(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, fourCPUs())
	k.want.CPUs = 9
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1", "cpu-2", "cpu-3"))
	k.silent()
	k.complains("vm.currentCpus: 9 CPUs are wanted, the machine has places for 4")
	k.want.CPUs = 4
	k.silent()
	k.complains()
}

func TestACPUThatCannotBePluggedIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, fourCPUs())
	k.want.CPUs = 3
	k.says(askCPUs)
	k.returns(slots(4))
	k.says(add(1, "cpu-1"), add(2, "cpu-2"))
	k.returns("", "error: out of memory")
	k.complains("vm.currentCpus: plug a CPU in: out of memory")
	require.Equal(t, 2, k.machine.Facts().CPUs)
	for _, pause := range []time.Duration{500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000} {
		k.waits(pause * time.Millisecond)
		k.passes(pause * time.Millisecond)
		k.says(askCPUs) // a failed command may have been executed
		k.returns(slots(4, "cpu-1"))
		k.says(add(2, "cpu-2"))
		k.returns("error: out of memory")
	}
	k.want.CPUs = 4
	k.says(askCPUs) // a new wish is tried immediately
	k.returns(slots(4, "cpu-1"))
	k.says(add(2, "cpu-2"), add(3, "cpu-3"))
	k.isDone()
	k.silent()
	k.complains()
}

// unplugging returns a machine with all CPUs plugged that has been asked to unplug all but two.
func unplugging(t *testing.T) *talk {
	t.Helper()
	k := newTalk(t, reconcile.Start{Running: true}, fourCPUs())
	k.want.CPUs = 2
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1", "cpu-2", "cpu-3"))
	k.says("query-kvm")
	k.returns(kvm)
	k.says(del("cpu-3"), del("cpu-2"))
	k.isDone()
	return k
}

func TestTheGuestGivesUpCPUsInItsOwnTime(t *testing.T) {
	t.Parallel()
	k := unplugging(t)
	k.waits(5 * time.Second)
	require.Equal(t, 4, k.machine.Facts().CPUs)

	k.passes(2 * time.Second)
	k.event("ACPI_DEVICE_OST", `{"info": {"device": "cpu-3", "slot": "3", "slot-type": "CPU", "source": 3, "status": 132}}`)
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1", "cpu-2", "cpu-3"))
	k.waits(3 * time.Second) // in progress

	k.passes(time.Second)
	k.event("DEVICE_DELETED", `{"path": "/machine/peripheral/cpu-3/lapic"}`)
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1", "cpu-2"))
	k.waits(2 * time.Second)
	require.Equal(t, 3, k.machine.Facts().CPUs)

	k.passes(time.Second)
	k.event("DEVICE_DELETED", `{"device": "cpu-2", "path": "/machine/peripheral/cpu-2"}`)
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1"))
	k.silent()
	k.complains()
	require.Equal(t, 2, k.machine.Facts().CPUs)
}

func TestAGuestThatSaysNothingIsLookedAt(t *testing.T) {
	t.Parallel()
	k := unplugging(t)
	k.waits(5 * time.Second)
	k.passes(5 * time.Second)
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1")) // the event did not come or was lost
	k.silent()
	k.complains()
}

func TestAGuestThatKeepsItsCPUsIsAskedSeldom(t *testing.T) {
	t.Parallel()
	k := unplugging(t)
	for _, pause := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		k.waits(pause * time.Second)
		k.passes(pause * time.Second)
		k.says(askCPUs)
		k.returns(slots(4, "cpu-1", "cpu-2", "cpu-3"))
		k.says(del("cpu-3"), del("cpu-2"))
		k.complains("vm.currentCpus: the guest has not given up 2 of 4 CPUs")
		k.isDone()
	}
}

func TestAGuestThatRefusesSaysSo(t *testing.T) {
	t.Parallel()
	k := unplugging(t)
	k.passes(time.Second)
	k.event("ACPI_DEVICE_OST", `{"info": {"device": "cpu-3", "slot": "3", "slot-type": "CPU", "source": 3, "status": 130}}`)
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1", "cpu-2", "cpu-3"))
	k.waits(4 * time.Second)
	k.complains("vm.currentCpus: the guest refuses to give up CPU cpu-3 (ACPI status 0x82)")
}

// QEMU's own event for a refusal counts only for a CPU that is being unplugged.
func TestAGuestThatRefusesByAnEvent(t *testing.T) {
	t.Parallel()
	for device, want := range map[string][]string{
		"cpu-3": {"vm.currentCpus: the guest refuses to give up CPU cpu-3"}, "nic0": nil, "cpu-1": nil,
	} {
		k := unplugging(t)
		k.passes(time.Second)
		k.event("DEVICE_UNPLUG_GUEST_ERROR", fmt.Sprintf(`{"device": %q, "path": "/machine"}`, device))
		k.waits(4 * time.Second)
		k.complains(want...)
	}
}

func TestAGuestThatFloodsEventsIsLookedAtFourTimesASecond(t *testing.T) {
	t.Parallel()
	k := unplugging(t)
	asked := 0
	for range 1000 {
		k.passes(time.Millisecond)
		k.event("ACPI_DEVICE_OST", `{"info": {"device": "cpu-3", "slot-type": "CPU", "source": 3, "status": 132}}`)
		if step := k.machine.Next(k.want, k.now); len(step.Requests) > 0 {
			asked++
			k.machine.Answer(step.Requests[0], []byte(slots(4, "cpu-1", "cpu-2", "cpu-3")), nil, k.now)
		}
	}
	require.Equal(t, 4, asked)
}

func TestCPUsThatAreWantedAgainComeBack(t *testing.T) {
	t.Parallel()
	k := unplugging(t)
	k.passes(time.Second)
	k.want.CPUs = 4
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1", "cpu-2", "cpu-3")) // still plugged
	k.waits(time.Minute)
	k.complains()

	k.passes(time.Second)
	k.event("DEVICE_DELETED", `{"device": "cpu-3", "path": "/machine/peripheral/cpu-3"}`)
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1", "cpu-2"))
	k.says(add(3, "cpu-3"))
	k.isDone()
	k.waits(59 * time.Second)
	k.passes(59 * time.Second)
	k.says(askCPUs) // cpu-2 was unplugged without an event
	k.returns(slots(4, "cpu-1", "", "cpu-3"))
	k.says(add(2, "cpu-2"))
	k.isDone()
	k.silent()
}

func TestAPausedMachineIsNotAskedForItsCPUs(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true}, fourCPUs())
	k.event("STOP", "")
	k.want.CPUs = 1
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1"))
	k.says("query-kvm")
	k.returns(kvm)
	k.silent()
	k.complains("vm.currentCpus: CPUs are unplugged when the guest runs again")
	k.event("RESUME", "")
	k.says(del("cpu-1"))
	k.complains()
}

func TestAQEMUThatWouldCrashUnplugsNothing(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true}, fourCPUs())
	k.want.CPUs = 1
	k.says(askCPUs)
	k.returns(slots(4, "cpu-1"))
	k.says("query-kvm")
	k.returns(tcg)
	k.silent()
	k.complains("vm.currentCpus: QEMU cannot unplug CPUs without KVM: it would crash when one is plugged in later. The VM has fewer CPUs after its next start")
	k.passes(time.Hour)
	k.event("DEVICE_DELETED", `{"device": "cpu-1"}`)
	k.silent()
	k.want.CPUs = 2
	k.silent()
	k.complains()
}

func TestTheCPUsOfTheStartStay(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true}, plan.CPUs{Boot: 2, Maximum: 4, ID: "cpu-%d"})
	k.want.CPUs = 1
	k.says(askCPUs)
	k.returns(`[{"type": "t", "props": {"core-id": 1}, "qom-path": "/machine/unattached/device[1]"},
		{"type": "t", "props": {"core-id": 0}, "qom-path": "/machine/unattached/device[0]"}]`)
	k.silent()
	k.complains("vm.currentCpus: 1 CPUs are wanted, 2 of the machine cannot be unplugged")
}

func TestAnswersThatAreNoneAreAskedForAgain(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, fourCPUs())
	k.want.CPUs = 2
	k.says(askCPUs)
	k.returns("[]")
	k.complains("vm.currentCpus: ask for the CPUs: the machine has no place for CPUs")
	k.passes(500 * time.Millisecond)
	k.says(askCPUs)
	k.loses()
	k.complains("vm.currentCpus: ask for the CPUs: no reply")
	k.waits(time.Second)
	k.passes(time.Second)
	k.says(askCPUs)
	k.returns(slots(2))
	k.says(add(1, "cpu-1"))
}
