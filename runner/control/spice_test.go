package control_test

import (
	"io"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/spice"
	"vmop/test/wait"
)

// A client opens several channels to a real SPICE server with a password, without needing the password itself. Another
// client can take its place on request.
func TestSPICE(t *testing.T) {
	t.Parallel()
	s := serveQEMU(t, "-object", "secret,id=s,data=unknown", "-device", "virtio-serial",
		"-spice", "unix=on,addr="+filepath.Join(t.TempDir(), "s")+",password-secret=s")
	open := func(id string, mode control.Mode) net.Conn {
		conn, err := s.client.SPICE(timeout(t), id, mode)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	main := open("first", control.Type)
	require.Zero(t, spice.Login(t, main, spice.Main, 0, "wrong"))
	inputs := open("first", control.Type)
	require.Zero(t, spice.Login(t, inputs, spice.Inputs, spice.Session(t, main), "wrong"))
	require.Equal(t, "spice type", consoles(s.tracker.Status()))

	_, err := s.client.SPICE(timeout(t), "second", control.Type)
	require.ErrorContains(t, err, "the screen is in use by uid")
	second := open("second", control.Take)
	for _, conn := range []net.Conn{main, inputs} {
		_, err := io.Copy(io.Discard, conn)
		require.NoError(t, err, "the streams of the first end")
	}
	require.Zero(t, spice.Login(t, second, spice.Main, 0, ""))
	require.Equal(t, "spice type", consoles(s.tracker.Status()))
	require.NoError(t, second.Close())
	wait.Until(t, func() bool { return consoles(s.tracker.Status()) == "" })
}

// A client connected to QEMU's own port is disconnected only on request.
func TestSPICEInUseByAnother(t *testing.T) {
	t.Parallel()
	s := serveQEMU(t, "-device", "virtio-serial", "-spice",
		"unix=on,addr="+filepath.Join(t.TempDir(), "s")+",disable-ticketing=on")
	require.NoError(t, s.tracker.Update(status.ConsoleOpened{Kind: status.SPICE, Client: "192.0.2.1:4711"}))
	_, err := s.client.SPICE(timeout(t), "a", control.Type)
	require.ErrorContains(t, err, "the screen is in use by 192.0.2.1:4711")
	conn, err := s.client.SPICE(timeout(t), "a", control.Take)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestSPICERefused(t *testing.T) {
	t.Parallel()
	s := serveQEMU(t)
	_, err := s.client.SPICE(timeout(t), "a", control.Type)
	require.ErrorContains(t, err, "the VM has no SPICE server")
	for _, bad := range []string{"", string(slices.Repeat([]byte("x"), 65))} {
		_, err := s.client.SPICE(timeout(t), bad, control.Type)
		require.ErrorContains(t, err, "give client=ID")
	}
	_, err = s.client.SPICE(timeout(t), "a", control.Watch)
	require.ErrorContains(t, err, "mode=type or take")
}
