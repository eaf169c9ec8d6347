package runner_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/spice"
)

// A SPICE client receives the guest's new address before and after the migration, and can connect there.
func TestAViewerIsSentToTheTarget(t *testing.T) {
	t.Parallel()
	disk := diskOf(t, guest.Counter(false))
	port := func() int {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		return l.Addr().(*net.TCPAddr).Port
	}
	fromPort, toPort := port(), port()
	const display = "display: {spice: {port: %d, address: 127.0.0.1, usbRedirects: 0}}"
	from := newCounting(t, disk, fmt.Sprintf(display, fromPort))
	to := newCounting(t, disk, fmt.Sprintf(display, toPort))
	from.runs()
	connects := func(port int, capabilities ...uint32) net.Conn {
		conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.Zero(t, spice.Login(t, conn, spice.Main, 0, "", capabilities...))
		spice.Session(t, conn)
		return conn
	}
	screen := connects(fromPort, spice.SemiSeamless)
	var learned []string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for len(learned) < 2 {
			kind, data := spice.Message(t, screen)
			if kind == spice.MigrateBegin || kind == spice.SwitchHost {
				host, port := spice.Host(t, data)
				learned = append(learned, fmt.Sprint(kind, " ", host, " ", port))
			}
		}
		_ = screen.Close()
	}()
	require.NoError(t, from.migrates(t.Context(), to.receives()))
	<-ended
	require.Equal(t, []string{fmt.Sprint("101 127.0.0.1 ", toPort), fmt.Sprint("111 127.0.0.1 ", toPort)}, learned)
	to.shows("spice " + connects(toPort).LocalAddr().String())
	_, err := from.wait()
	require.NoError(t, err)
}
