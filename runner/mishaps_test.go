package runner

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmtypes/plan"
)

// What QEMU says, as its reference manual has it, is told in words for people.
func TestMishapsAreToldInWords(t *testing.T) {
	t.Parallel()
	f := newMishaps(&machine{vm: &VM{
		Plan: &plan.Plan{Drives: []plan.Drive{{Index: 0, Device: "disk0"}}},
	}})
	for _, row := range []struct {
		event, data string
		reason      status.Reason
		text        string
	}{
		{"GUEST_PANICKED", `{"action": "pause"}`, status.GuestPanicked, "the guest has panicked; it stands still until it is resumed or reset"},
		{"GUEST_PANICKED", `{"action": "run", "info": {"type": "hyper-v", "arg1": 7}}`, status.GuestPanicked, "the guest has panicked; it goes on"},
		{"GUEST_PANICKED", `{"action": "poweroff"}`, status.GuestPanicked, "the guest has panicked; QEMU does: poweroff"},
		{"GUEST_CRASHLOADED", `{"action": "run"}`, status.GuestPanicked, "the guest has panicked, and saves its memory for an inquiry"},
		{"WATCHDOG", `{"action": "reset"}`, status.WatchdogExpired, "the guest has not served its watchdog; QEMU does: reset"},
		{
			"MEMORY_FAILURE", `{"recipient": "hypervisor", "action": "fatal", "flags": {"action-required": false, "recursive": false}}`,
			status.MemoryFailure, "hypervisor: memory of the host is broken: fatal",
		},
		{
			"BLOCK_IMAGE_CORRUPTED", `{"device": "", "node-name": "disk0-format", "msg": "Preventing\u001b invalid write", "offset": 1, "size": 2, "fatal": true}`,
			status.ImageCorrupted, "disk0-format: the image is inconsistent: Preventing? invalid write; QEMU doesn't use it any more",
		},
		{
			"BLOCK_IO_ERROR", `{"qom-path": "/machine/peripheral/disk0/virtio-backend", "device": "", "node-name": "x", "operation": "read", "action": "report", "nospace": false, "reason": "Input/output error"}`,
			status.IOError, "vm.drives[0]: read failed: Input/output error, as the guest was told",
		},
		{"BLOCK_IO_ERROR", `{"device": "x", "operation": "write", "action": "ignore", "reason": "?"}`, status.IOError, "x: write failed: ?; it goes on"},
	} {
		n, ok := f.read(qmp.Event{Name: row.event, Data: json.RawMessage(row.data)})
		require.True(t, ok, row.data)
		require.Equal(t, row.reason, n.reason)
		n.count = 1
		require.Equal(t, row.text, n.String())
	}
	for _, other := range []qmp.Event{{Name: "NICE"}, {Name: "WATCHDOG", Data: json.RawMessage(`[]`)}, {Name: "BLOCK_IO_ERROR", Data: json.RawMessage(`{"action": "stop"}`)}} {
		_, ok := f.read(other)
		require.False(t, ok, other.Name)
	}
	for range 1000 {
		f.remember(string(rune(len(f.causes))), "cause")
	}
	require.Len(t, f.causes, maxCauses)
}

// A runner that takes a machine over finds out what has died meanwhile.
func TestHelpersThatDiedWithoutARunner(t *testing.T) {
	t.Parallel()
	commands := make(chan string, 8)
	session := answering(t, func(command string) string {
		commands <- command
		switch command {
		case "qmp_capabilities", "set-action":
			return "{}"
		case "query-status":
			return `{"status": "running"}`
		}
		return ""
	})
	m := &machine{
		monitor: connected(session), log: slog.New(slog.DiscardHandler), tracker: status.NewTracker(time.Now, status.Entered{State: status.Booting}),
		vm: &VM{Plan: &plan.Plan{
			Helpers: []plan.Process{{Name: "passt"}, {Name: "swtpm", Role: plan.RoleTPM}},
		}},
	}
	newMishaps(m).attached(t.Context())
	s := m.tracker.Status()
	require.Equal(t, status.True, s.Condition(status.TPMLost).Status)
	require.Len(t, s.Problems, 2)
	require.Contains(t, s.Problems[0].Message, "passt has ended: there was no runner to see why")
	require.NotEmpty(t, m.hold.noReset())
	for command := ""; command != "set-action"; command = <-commands {
	}
}

// A machine that the user has paused is not let go on, whatever else holds.
func TestAPauseHolds(t *testing.T) {
	t.Parallel()
	var h hold
	runs := 0
	goOn := func() error { runs++; return nil }
	require.NoError(t, h.unlessPaused(goOn))
	h.pause(true)
	require.NoError(t, h.unlessPaused(goOn))
	require.Equal(t, 1, runs)
	h.pause(false)
	require.NoError(t, h.unlessPaused(goOn))
	require.Equal(t, 2, runs)
	first := h.lose("a")
	require.Equal(t, []string{"a", "b"}, h.lose("b"))
	require.Equal(t, []string{"a"}, first, "what was told stays")
}

// Whoever keeps VMs running must see that this one has failed.
func TestAResetWithoutTPMIsAFailure(t *testing.T) {
	t.Parallel()
	var h hold
	require.Empty(t, h.noReset())
	require.Zero(t, h.explain(Outcome{Cause: status.CauseReset}).ExitCode())
	h.loseTPM()
	require.Equal(t, status.CauseTPM, h.explain(Outcome{Cause: status.CauseReset}).Cause)
	require.Equal(t, 1, h.explain(Outcome{Cause: status.CauseReset}).ExitCode())
	require.Equal(t, status.CauseAsked, h.explain(Outcome{Cause: status.CauseAsked}).Cause)
	require.NotEmpty(t, h.noReset())
}
