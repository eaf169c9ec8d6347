package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/childprocess"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/status"
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
