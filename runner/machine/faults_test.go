package machine

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// QEMU's error descriptions from its reference manual appear in the status in plain words.
func TestFaultsInWords(t *testing.T) {
	t.Parallel()
	k := newTalk(t, func(c *Config) { c.Plan.Drives = []plan.Drive{{Index: 0, Device: "disk0"}} })
	f := k.state.faults
	for _, row := range []struct {
		event, data string
		reason      vmstatus.Reason
		text        string
	}{
		{
			"GUEST_PANICKED", `{"action": "pause"}`, vmstatus.ReasonGuestPanicked,
			"the guest has panicked; it is paused until it is resumed or reset",
		},
		{
			"GUEST_PANICKED", `{"action": "run", "info": {"type": "hyper-v", "arg1": 7}}`, vmstatus.ReasonGuestPanicked,
			"the guest has panicked; it keeps running",
		},
		{
			"GUEST_PANICKED", `{"action": "poweroff"}`, vmstatus.ReasonGuestPanicked,
			"the guest has panicked; QEMU does: poweroff",
		},
		{
			"GUEST_CRASHLOADED", `{"action": "run"}`, vmstatus.ReasonGuestPanicked,
			"the guest has panicked and is saving its memory to a crash dump",
		},
		{
			"WATCHDOG", `{"action": "reset"}`, vmstatus.ReasonWatchdogExpired,
			"the guest's watchdog has expired; QEMU does: reset",
		},
		{
			"MEMORY_FAILURE", `{"recipient": "hypervisor", "action": "fatal", "flags": {"action-required": false, "recursive": false}}`,
			vmstatus.ReasonMemoryFailure, "hypervisor: the host's memory is faulty: fatal",
		},
		{
			"BLOCK_IMAGE_CORRUPTED", `{"device": "", "node-name": "disk0-format", "msg": "Preventing\u001b invalid write", "offset": 1, "size": 2, "fatal": true}`,
			vmstatus.ReasonImageCorrupted, "disk0-format: the image is corrupted: Preventing� invalid write; QEMU no longer uses it",
		},
		{
			"BLOCK_IO_ERROR", `{"qom-path": "/machine/peripheral/disk0/virtio-backend", "device": "", "node-name": "x", "operation": "read", "action": "report", "nospace": false, "reason": "Input/output error"}`,
			vmstatus.ReasonIOError, "vm.drives[0]: read failed: Input/output error; the guest got the error",
		},
		{
			"BLOCK_IO_ERROR", `{"device": "x", "operation": "write", "action": "ignore", "reason": "?"}`,
			vmstatus.ReasonIOError, "x: write failed: ?; it keeps running",
		},
	} {
		one, ok := f.readEvent(qmp.Event{Name: row.event, Data: json.RawMessage(row.data)})
		require.True(t, ok, row.data)
		require.Equal(t, row.reason, one.reason)
		one.count = 1
		require.Equal(t, row.text, one.String())
	}
	for _, other := range []qmp.Event{
		{Name: "NICE"},
		{Name: "WATCHDOG", Data: json.RawMessage(`[]`)},
		{Name: "BLOCK_IO_ERROR", Data: json.RawMessage(`{"action": "stop"}`)},
	} {
		_, ok := f.readEvent(other)
		require.False(t, ok, other.Name)
	}
	for range 1000 {
		k.state.disks.rememberCause(string(rune(len(k.state.disks.causes))), "cause")
	}
	require.Len(t, k.state.disks.causes, maxCauses)
}

// A panic is shown until the machine is reset. Other faults are shown until they have not recurred for a while.
func TestFaultsEnd(t *testing.T) {
	t.Parallel()
	k := newTalk(t)
	k.event("GUEST_PANICKED", `{"action": "pause"}`)
	k.event("WATCHDOG", `{"action": "none"}`)
	k.is(runs)
	k.does()
	require.Len(t, k.known.Problems, 2)
	k.logged("the guest has panicked")
	for range 20 {
		k.passes(quietTime / 20)
		k.nextStep()
		if len(k.open) > 0 {
			k.returns("query-status", runs)
		}
	}
	k.other = nil
	k.nextStep()
	require.Len(t, k.known.Problems, 1)
	k.event("RESET", "")
	k.passes(restTime)
	k.is(runs)
	k.does()
	require.Empty(t, k.known.Problems)
}
