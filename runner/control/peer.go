package control

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

type peerKey struct{}

func withPeer(ctx context.Context, peer string) context.Context {
	return context.WithValue(ctx, peerKey{}, peer)
}

// peer returns the client that sent a request.
func peer(ctx context.Context) string {
	text, _ := ctx.Value(peerKey{}).(string)
	return text
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
