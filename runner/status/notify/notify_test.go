package notify_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/status/notify"
)

// listen acts as the service manager.
func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	return conn
}

func heard(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	require.NoError(t, err)
	return string(buf[:n])
}

func TestTell(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@vmop-notify-test-" +
		strconv.Itoa(os.Getpid())} {
		manager := listen(t, name)
		t.Setenv("NOTIFY_SOCKET", name)
		m, err := notify.FromEnvironment()
		require.NoError(t, err)
		require.Zero(t, m.Watchdog())
		require.NoError(t, m.Send(notify.Ready, notify.Status("all is well"), notify.ExtendTimeout(90*time.Second)))
		require.Equal(t, "READY=1\nSTATUS=all is well\nEXTEND_TIMEOUT_USEC=90000000", heard(t, manager))
		require.NoError(t, m.Send(notify.Reloading()...))
		require.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*$`, heard(t, manager))
	}
}

// A restarted manager has a new socket with the old name.
func TestTheManagerIsStartedAgain(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	first := listen(t, name)
	t.Setenv("NOTIFY_SOCKET", name)
	m, err := notify.FromEnvironment()
	require.NoError(t, err)
	require.NoError(t, m.Send(notify.Ready))
	require.NoError(t, first.Close())
	require.NoError(t, os.Remove(name))
	require.ErrorContains(t, m.Send(notify.Watchdog), "notify the service manager: ")
	second := listen(t, name)
	require.NoError(t, m.Send(notify.Watchdog))
	require.Equal(t, "WATCHDOG=1", heard(t, second))
}

func TestEnvironment(t *testing.T) {
	me := strconv.Itoa(os.Getpid())
	for _, test := range []struct {
		socket, usec, pid string
		watchdog          time.Duration
		err               string
	}{
		{"", "30000000", me, 0, ""},
		{"/run/x", "", "", 0, ""},
		{"/run/x", "30000000", "", 30 * time.Second, ""},
		{"/run/x", "30000000", me, 30 * time.Second, ""},
		{"/run/x", "30000000", "1", 0, ""},
		{"/run/x", "soon", me, 0, "WATCHDOG_USEC=soon: must be a number of microseconds"},
		{
			"vsock:2:1234", "", "", 0,
			"NOTIFY_SOCKET=vsock:2:1234: must be the path of a unix socket, or @ and an abstract name",
		},
	} {
		t.Setenv("NOTIFY_SOCKET", test.socket)
		t.Setenv("WATCHDOG_USEC", test.usec)
		t.Setenv("WATCHDOG_PID", test.pid)
		m, err := notify.FromEnvironment()
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
			_, there := os.LookupEnv(name)
			require.False(t, there, "%s reaches the processes that are started", name)
		}
		if test.err != "" {
			require.EqualError(t, err, test.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, test.socket == "", m == nil)
		require.Equal(t, test.watchdog, m.Watchdog())
	}
	var none *notify.Manager
	require.NoError(t, none.Send(notify.Ready))
}

// A status text is always a single line.
func TestStatusIsOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "STATUS=a READY=1��[31m", notify.Status("a\nREADY=1\x00\x1b[31m\n"))
	long := notify.Status(strings.Repeat("ä", 4000))
	require.Less(t, len(long), 1100)
	require.True(t, strings.HasSuffix(long, "ä…"), "no character is cut")
}
