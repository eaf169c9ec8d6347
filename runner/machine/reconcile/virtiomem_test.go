package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

func pluggable() plan.Rule {
	return plan.Memory{Device: "mem0", Base: 256 * mib, Maximum: 768 * mib, Block: 2 * mib}
}

func request(n int64) string {
	return fmt.Sprintf(`qom-set {"path":"/machine/peripheral/mem0","property":"requested-size","value":%d}`, n*mib)
}

const askMemory = `qom-get {"path":"/machine/peripheral/mem0","property":"size"}`

func gives(n int64) string { return fmt.Sprintf(`{"id": "mem0", "size": %d}`, n*mib) }

func TestMemoryIsPlugged(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, pluggable())
	k.want.RAM = 512*mib + 3
	k.says(request(256)) // whole blocks
	k.isDone()
	k.silent()
	require.Equal(t, 256*mib, k.machine.Facts().RAM, "the guest does not run")
	k.event("RESUME", "")
	k.waits(250 * time.Millisecond)
	k.event("MEMORY_DEVICE_SIZE_CHANGE", `{"id": "other", "size": 1}`)
	k.event("MEMORY_DEVICE_SIZE_CHANGE", gives(256))
	k.silent()
	require.Equal(t, 512*mib, k.machine.Facts().RAM)

	for _, tt := range []struct {
		wish, says int64
		complaints []string
	}{
		{100, 0, []string{"vm.currentRam: 100 MiB are requested, but the guest always has 256 MiB"}},
		{2048, 512, nil}, // a larger value needs a restart
	} {
		k.want.RAM = tt.wish * mib
		k.says(request(tt.says))
		k.isDone()
		k.passes(time.Second)
		k.says(askMemory) // the last event may be late
		k.returns(fmt.Sprint(tt.says * mib))
		k.silent()
		k.complains(tt.complaints...)
	}
}

func TestAGuestThatKeepsItsMemory(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true}, pluggable())
	k.want.RAM = 256 * mib
	k.says(request(0))
	k.returns("error: 'requested-size' cannot exceed the memory backend size")
	k.complains("vm.currentRam: set the virtio-mem device: 'requested-size' cannot exceed the memory backend size")
	k.passes(time.Second)
	k.says(request(0))
	k.isDone()
	for range 8 { // the first answer contains its path
		k.passes(time.Minute)
		k.says(askMemory)
		k.returns(fmt.Sprint(100 * mib))
	}
	k.silent()
	k.complains("vm.currentRam: the guest has 356 MiB instead of the 256 MiB requested, and has come no closer for a minute; check that it loads the driver of the virtio-mem device")
}
