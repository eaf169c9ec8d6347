package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
)

// connected is a monitor with a session of a test.
func connected(session *qmp.Session) *monitor {
	m := newMonitor("", slog.New(slog.DiscardHandler))
	m.session = session
	return m
}

// serveOnce greets one client and answers its commands, until it has gone.
func serveOnce(l net.Listener, answers int) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(`{"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": []}}` + "\n"))
	commands := bufio.NewScanner(conn)
	for id := 1; commands.Scan() && id <= answers; id++ {
		_, _ = fmt.Fprintf(conn, `{"return": {}, "id": %d}`+"\n", id)
	}
}

// A command waits for the connection that somebody has promised, and for no
// other.
func TestMonitorIsConnectedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "m")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	m := newMonitor(path, slog.New(slog.DiscardHandler))
	_, err = m.Run(t.Context(), qmp.Command{Execute: "stop"})
	require.ErrorIs(t, err, qmp.ErrClosed, "there never was one")

	m.keep()
	impatient, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("impatient"))
	_, err = m.Run(impatient, qmp.Command{Execute: "stop"})
	require.ErrorContains(t, err, "there is no connection with QEMU: impatient")

	said := make(chan error)
	run := func() {
		_, err := m.Run(t.Context(), qmp.Command{Execute: "stop"})
		said <- err
	}
	go run()
	go serveOnce(l, 2)
	_, err = m.dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, <-said)

	go run() // is not answered: the connection ends
	require.ErrorIs(t, <-said, qmp.ErrClosed, "it was sent, perhaps carried out: it is not said again")

	go run()
	go serveOnce(l, 2)
	_, err = m.dial(t.Context())
	require.NoError(t, err)
	require.NoError(t, <-said)

	require.NoError(t, m.Close())
	go run()
	m.leave()
	require.ErrorIs(t, <-said, qmp.ErrClosed, "QEMU has ended")
}
