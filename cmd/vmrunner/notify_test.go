package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// serviceManager receives the messages of a program to its service manager.
type serviceManager struct {
	t    *testing.T
	conn *net.UnixConn
	all  []string // one element per message
}

// managed makes a program believe that a service manager has started it.
func managed(t *testing.T, p *program, name string, env ...string) *serviceManager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetReadDeadline(wait.Deadline()))
	p.cmd.Env = append(append(os.Environ(), "NOTIFY_SOCKET="+name), env...)
	return &serviceManager{t: t, conn: conn}
}

// await waits for a message with a prefix.
func (m *serviceManager) await(prefix string) {
	m.t.Helper()
	buf := make([]byte, 8192)
	for {
		n, err := m.conn.Read(buf)
		require.NoError(m.t, err, "waiting for %q; there were %q", prefix, slices.Compact(m.all))
		lines := strings.Split(string(buf[:n]), "\n")
		m.all = append(m.all, lines...)
		for _, line := range lines {
			if strings.HasPrefix(line, prefix) {
				return
			}
		}
	}
}

// said counts the messages with a prefix.
func (m *serviceManager) said(prefix string) (count int) {
	for _, line := range m.all {
		if strings.HasPrefix(line, prefix) {
			count++
		}
	}
	return count
}

// The service manager learns when the VM runs, its state, and that it is being stopped and needs more time. QEMU has no
// access to the manager.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 2")
	p := newProgram(t, dir, nil)
	m := managed(t, p, "@vmrunner-"+filepath.Base(dir), "WATCHDOG_USEC=1000000")
	p.launch()
	m.await("READY=1")
	client := dial(t, dir)
	s, err := client.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, vmstatus.StateBooting, s.State)
	for _, process := range []int{s.QEMU.PID, s.Runner.PID} {
		require.NotZero(t, process)
	}
	environ, err := os.ReadFile(filepath.Join("/proc", pidOf(&s), "environ"))
	require.NoError(t, err)
	require.Contains(t, string(environ), "PATH=")
	require.NotContains(t, string(environ), "NOTIFY_SOCKET")
	require.NotContains(t, string(environ), "WATCHDOG_USEC")

	m.await("WATCHDOG=1")
	m.await("WATCHDOG=1")
	require.NoError(t, client.Act(t.Context(), control.Pause))
	m.await("STATUS=the VM is paused")
	require.NoError(t, client.Act(t.Context(), control.Resume))
	m.await("STATUS=Booting")
	require.Equal(t, 1, m.said("READY=1"))
	p.signal(syscall.SIGHUP)
	m.await("RELOADING=1")
	m.await("READY=1")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("nonsense\nREADY=1"), 0o600))
	m.await("STATUS=Booting; " + dir)
	require.Zero(t, m.said("STOPPING"))

	p.signal(syscall.SIGTERM)
	m.await("STATUS=Terminating; signal terminated")
	require.Equal(t, 1, m.said("STOPPING=1"))
	require.Equal(t, 1, m.said("EXTEND_TIMEOUT_USEC=60000000"))
	m.await("STATUS=Stopped; forced")
	require.Zero(t, p.exit())
	require.Equal(t, "STATUS=Initializing", m.all[0])
}

// A failed start is never reported as ready, and the manager learns the reason.
func TestServiceManagerOfAFailedStart(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "options: {helper: {program: /bin/sleep, arguments: ['1000'], ready: PATH/never}}")
	p := newProgram(t, dir, nil)
	m := managed(t, p, filepath.Join(dir, "notify"))
	p.launch()
	m.await("STATUS=Starting")
	p.await(`starting`)
	p.signal(syscall.SIGTERM)
	m.await("STATUS=Stopped; stopped while the VM was being started: signal terminated")
	require.Equal(t, 143, p.exit())
	require.Zero(t, m.said("READY"))
}

func TestServiceManagerThatIsNone(t *testing.T) {
	t.Parallel()
	p := newProgram(t, folder(t, "bare"), nil)
	p.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET=nonsense")
	p.launch()
	require.Equal(t, 1, p.exit())
	require.Contains(t, p.out.String(), "vmrunner: NOTIFY_SOCKET=nonsense: must be the path of a unix socket")
}
