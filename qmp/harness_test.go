package qmp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/test/wait"
)

func timeout(t testing.TB) context.Context {
	ctx, cancel := wait.Context(t.Context())
	t.Cleanup(cancel)
	return ctx
}

// socketDir returns a folder with a short name, because a socket's path has at most 107 bytes.
func socketDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "qmp")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// qemu is a real QEMU without devices that never runs its guest.
type qemu struct {
	*exec.Cmd
	path  string // the monitor that session uses
	other string // a second monitor, without a connection
}

// startQEMU starts QEMU in the runner's order: it creates the session first.
func startQEMU(t testing.TB, options ...qmp.Option) (*qemu, *qmp.Session) {
	binary, err := exec.LookPath("qemu-system-x86_64")
	require.NoError(t, err, "Debian package qemu-system-x86")
	dir := socketDir(t)
	q := &qemu{path: filepath.Join(dir, "a"), other: filepath.Join(dir, "b")}
	first, err := qmp.Listen(q.path)
	require.NoError(t, err)
	second, err := qmp.Listen(q.other)
	require.NoError(t, err)
	conn, err := net.Dial("unix", q.path)
	require.NoError(t, err)
	session := qmp.New(conn, options...)
	t.Cleanup(func() { session.Close() })

	q.Cmd = exec.Command(binary, "-S", "-nodefaults", "-display", "none",
		"-accel", "tcg", "-machine", "q35", "-smp", "1,maxcpus=2",
		"-chardev", "socket,id=a,fd=3,server=on,wait=off", "-mon", "chardev=a,mode=control",
		"-chardev", "socket,id=b,fd=4,server=on,wait=off", "-mon", "chardev=b,mode=control")
	q.Stderr = os.Stderr
	q.ExtraFiles = []*os.File{first, second}
	require.NoError(t, q.Start())
	t.Cleanup(func() {
		q.Process.Kill()
		q.Wait()
	})
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	return q, session
}

// peer is the other end of a session, controlled by the test.
type peer struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Scanner
}

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "Debian"}, "capabilities": ["oob"]}}`

// newPeer returns a session and its peer, which has not sent a greeting.
func newPeer(t testing.TB, options ...qmp.Option) (*peer, *qmp.Session) {
	path := filepath.Join(socketDir(t), "s")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	session := qmp.New(conn, options...)
	t.Cleanup(func() { session.Close() })
	other, err := listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { other.Close() })
	return &peer{t: t, conn: other, in: bufio.NewScanner(other)}, session
}

// newReadyPeer returns a session that is ready, and its peer.
func newReadyPeer(t testing.TB, options ...qmp.Option) (*peer, *qmp.Session) {
	p, session := newPeer(t, options...)
	p.say(greeting)
	require.Equal(t, "qmp_capabilities", p.hear().Execute)
	p.say(`{"return": {}, "id": 1}`)
	require.NoError(t, session.Ready(timeout(t)))
	return p, session
}

func (p *peer) say(line string) { p.write(line + "\r\n") }

func (p *peer) write(text string) {
	_, err := p.conn.Write([]byte(text))
	require.NoError(p.t, err)
}

type heard struct {
	Execute   string          `json:"execute"`
	Arguments json.RawMessage `json:"arguments"`
	ID        uint64          `json:"id"`
}

func (p *peer) hear() (h heard) {
	require.True(p.t, p.in.Scan(), "the session sends something")
	require.NoError(p.t, json.Unmarshal(p.in.Bytes(), &h), "%s", p.in.Bytes())
	return h
}

// closed waits for the end of the session.
func closed(t testing.TB, s *qmp.Session) error {
	wait.Receive(t, s.Done(), "the session has not ended")
	require.ErrorIs(t, s.Err(), qmp.ErrClosed)
	return s.Err()
}
