package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// The list distinguishes a QEMU without a runner, a stopped runner, and the remains of both.
func TestTheListTellsWhatThereIsInPlaceOfARunner(t *testing.T) {
	t.Parallel()
	dir := func() string {
		dir, err := os.MkdirTemp("", "ps")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	ended, missing, silent := dir(), dir(), dir()
	qemu, err := childprocess.Identify(os.Getpid())
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{"version": 1, "qemu": qemu, "configFile": "/vm.yaml"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(missing, "machine.json"), text, 0o600))
	socket, err := net.Listen("unix", filepath.Join(silent, control.SocketName))
	require.NoError(t, err)
	t.Cleanup(func() { socket.Close() })

	entries := queryRunners(t.Context(), []config.Machine{
		{Name: "a", RuntimeDir: ended}, {Name: "b", RuntimeDir: missing}, {Name: "c", RuntimeDir: silent},
	})
	require.Equal(t, []string{"ended", "no runner", "no answer"},
		[]string{entries[0].Runner, entries[1].Runner, entries[2].Runner})
	for i, row := range listRows(entries, true, time.Now())[1:] {
		require.Equal(t, entries[i].Runner, row[1])
	}
	rows := listRows([]entry{{Name: "d", Status: &status.Status{CPUs: 2}}}, false, time.Now())
	require.Equal(t, "-", rows[1][3], "QEMU has not reported it yet")
}

// The list and the status show that a guest is emulated, and the remedy.
func TestAnEmulatedGuestIsShown(t *testing.T) {
	t.Parallel()
	const why = "open /dev/kvm: permission denied: add this user to the group kvm (usermod -aG kvm USER, then log in again)"
	s := status.Status{State: vmstatus.StateRunning, QEMU: status.QEMU{Emulated: why}}
	rows := inventoryRows([]inventory.VM{{Name: "web", Status: &s}}, false, time.Now())
	require.Equal(t, "Running (emulated)", rows[1][1])
	require.Contains(t, statusFacts(s, time.Now()), []string{"Acceleration:", "none, the guest is emulated: " + why})
	var shown strings.Builder
	cmd := &cobra.Command{}
	cmd.SetErr(&shown)
	printFaults(cmd, []inventory.VM{{Name: "web", Status: &s}, {Name: "db", Status: &s}})
	require.Equal(t, "vmrunner: emulated guests are slow: "+why+"\n", shown.String())
	shown.Reset()
	printNotes(cmd, &inventory.Inventory{}, &inventory.VM{Name: "web", Status: &s})
	require.Equal(t, "warning: the guest is slow, because it is emulated: "+why+"\n", shown.String())
}
