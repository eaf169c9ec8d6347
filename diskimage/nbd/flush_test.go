package nbd_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/diskimage/nbd"
	"vmop/test/wait"
)

// A failed flush returns an error.
func TestAnExportIsFlushed(t *testing.T) {
	t.Parallel()
	v := startVM(t)
	dir, err := os.MkdirTemp("", "nbd")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	v.do("nbd-server-start", fmt.Sprintf(`{"addr": {"type": "unix", "data": {"path": %q}}}`, socket))
	for name, fails := range map[string]string{"good": "discard", "bad": "flush"} {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
		v.do("blockdev-add", fmt.Sprintf(`{"driver": "blkdebug", "node-name": %q, "image": {"driver": "file", "filename": %q},
			"inject-error": [{"event": "none", "iotype": %q, "errno": 28}]}`, name, file, fails))
		v.do("block-export-add", fmt.Sprintf(`{"type": "nbd", "id": %[1]q, "node-name": %[1]q, "name": %[1]q,
			"writable": true}`, name))
		out, err := exec.CommandContext(t.Context(), "qemu-io", "-f", "raw", "-c", "write 0 4k",
			"nbd+unix:///"+name+"?socket="+socket).CombinedOutput() // unwritten data needs no flush
		require.NoError(t, err, "%s", out)
	}
	flush := func(name string) error {
		conn, err := net.Dial("unix", socket)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(wait.Deadline()))
		return nbd.Flush(conn, name)
	}
	require.NoError(t, flush("good"))
	require.NoError(t, flush("good"))
	require.EqualError(t, flush("bad"), `flush the export "bad": the server answers with the error 28`)
	require.Error(t, flush("none"))
}
