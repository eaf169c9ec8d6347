package control

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"vmop/printable"
)

type peerKey struct{}

// peerValue is the client that sent a request.
type peerValue struct {
	text    string
	conn    net.Conn
	manager bool
}

func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, peerValue{peerOf(conn), conn, false})
}

// withManager is withPeer for a connection of the manager.
func withManager(ctx context.Context, conn net.Conn) context.Context {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		host = conn.RemoteAddr().String()
	}
	return context.WithValue(ctx, peerKey{}, peerValue{"manager " + host, conn, true})
}

// UserHeader has the name of the user for whom the manager sends a request. Other clients, such as kubectl vmop by
// pods/exec, may say so, too: the name is shown as unverified then, and never the user's whom the manager knows.
// Whoever has the socket could end QEMU, so a false name gives no more rights.
const UserHeader = "Vmop-User"

// unverified follows the name of a user for which only the client vouches.
const unverified = " (unverified)"

// longestUser bounds the name of a user, in bytes.
const longestUser = 256

// peer returns the client that sent a request.
func peer(ctx context.Context) string {
	value, _ := ctx.Value(peerKey{}).(peerValue)
	return value.text
}

// A Who identifies a client of a console or screen.
type Who struct {
	// Client is the process or the program that is connected, or the unverified name of a user.
	Client string
	// User is the one for whom the manager is connected; empty: none.
	User string
}

// String names the client for people.
func (w Who) String() string { return cmp.Or(w.User, w.Client) }

// same reports whether two clients are the same user's.
func (w Who) same(other Who) bool { return w.User != "" && w.User == other.User }

// who returns the client that sent a request.
func who(r *http.Request) Who {
	value, _ := r.Context().Value(peerKey{}).(peerValue)
	w := Who{Client: value.text}
	user := printable.Line(r.Header.Get(UserHeader))
	user = strings.ToValidUTF8(user[:min(len(user), longestUser)], "")
	switch {
	case value.manager:
		w.User = user
	case user != "":
		w.Client = user + unverified
	}
	return w
}

// isGone reports whether the client of a request has closed the connection.
func isGone(ctx context.Context) bool {
	value, _ := ctx.Value(peerKey{}).(peerValue)
	c, ok := value.conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	poll := []unix.PollFd{{}}
	err = raw.Control(func(fd uintptr) {
		poll[0].Fd = int32(fd)
		_, _ = unix.Poll(poll, 0) // an error leaves Revents empty
	})
	return err != nil || poll[0].Revents&unix.POLLHUP != 0
}

// peerOf describes the process at the other end of a connection: "uid 1000 pid 4711".
func peerOf(conn net.Conn) string {
	cred, err := credentials(conn)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("uid %d pid %d", cred.Uid, cred.Pid)
}

// credentials are those of the process that connected, or listens (SO_PEERCRED
// of unix(7)).
func credentials(conn net.Conn) (*unix.Ucred, error) {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("credentials of the peer of %T: not a socket", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("credentials of the peer: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return nil, fmt.Errorf("credentials of the peer: %w", err)
	}
	return cred, nil
}
