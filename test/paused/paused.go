// Package paused starts a QEMU without a guest, so that a test can use its monitor.
package paused

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
)

// QEMU is a QEMU that is paused until the test runs cont. It ends with the test.
type QEMU struct {
	*qmp.Session
	t   testing.TB
	Dir string // a folder for this QEMU, with a path short enough for sockets
}

// Start starts a QEMU of the machine q35, with only the devices in the options. DIR in an option is replaced by the
// folder of the QEMU.
func Start(t testing.TB, options ...string) *QEMU {
	t.Helper()
	binary, err := exec.LookPath("qemu-system-x86_64")
	require.NoError(t, err, "install the Debian package qemu-system-x86")
	dir, err := os.MkdirTemp("", "q")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "m")
	listener, err := qmp.Listen(path)
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	q := &QEMU{Session: qmp.New(conn), t: t, Dir: dir}
	t.Cleanup(func() { _ = q.Close() })
	args := []string{
		"-S", "-nodefaults", "-display", "none", "-accel", "tcg", "-machine", "q35",
		"-chardev", "socket,id=m,fd=3,server=on,wait=off", "-mon", "chardev=m,mode=control",
	}
	for _, o := range options {
		args = append(args, strings.ReplaceAll(o, "DIR", dir))
	}
	cmd := exec.Command(binary, args...)
	cmd.ExtraFiles = []*os.File{listener}
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	require.NoError(t, err)
	defer stderr.Close()
	cmd.Stderr = stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return q
}

// Said returns QEMU's output on standard error.
func (q *QEMU) Said() string {
	q.t.Helper()
	text, err := os.ReadFile(filepath.Join(q.Dir, "stderr"))
	require.NoError(q.t, err)
	return string(text)
}
