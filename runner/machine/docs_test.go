package machine

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// The page about faults contains a row for each reason.
func TestFaultsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/concepts/faults.md")
	require.NoError(t, err)
	for _, reason := range []vmstatus.Reason{
		vmstatus.ReasonIOError, vmstatus.ReasonGuestPanicked, vmstatus.ReasonWatchdogExpired,
		vmstatus.ReasonMemoryFailure, vmstatus.ReasonImageCorrupted,
		vmstatus.ReasonMachineFailed, vmstatus.ReasonHelperLost, vmstatus.ReasonDirectoryLost, vmstatus.ReasonTPMLost,
	} {
		require.Contains(t, string(text), "\n| `"+string(reason)+"` |")
	}
	why := recovery{}
	_, _, texts := why.decideResume([]failedDisk{
		{full: true, space: Space{Known: true}},
		{cause: "write failed: Input/output error"},
	}, why.since)
	for _, phrase := range []string{
		texts[0][len(": "):len(": no space left on its file system; the VM is paused")],
		"write failed: Input/output error; the VM is paused", acceleratorFailed[:37], consequenceOf("report")[2:],
	} {
		require.Contains(t, string(text), phrase)
	}
}
