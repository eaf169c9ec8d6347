package control

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// isClientGone reports whether the client of a request has closed the connection.
func isClientGone(ctx context.Context) bool {
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
	cred, err := peerCredentials(conn)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("uid %d pid %d", cred.Uid, cred.Pid)
}

// isOwn returns an error if the server of a socket belongs to another user, and this user is not root.
func isOwn(conn net.Conn, path string) error {
	cred, err := peerCredentials(conn)
	if err == nil && os.Geteuid() != 0 && int(cred.Uid) != os.Geteuid() {
		err = fmt.Errorf("%s belongs to user %d", path, cred.Uid)
	}
	return err
}

// peerCredentials returns the credentials of the process that connected, or listens (SO_PEERCRED of unix(7)).
func peerCredentials(conn net.Conn) (*unix.Ucred, error) {
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
