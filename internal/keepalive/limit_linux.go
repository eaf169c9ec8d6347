package keepalive

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setSocketOptions applies the limit to a socket before it listens or connects.
func (l Limit) setSocketOptions(_, _ string, socket syscall.RawConn) error {
	var err error
	if failed := socket.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(time.Duration(l).Milliseconds()))
	}); failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("limit how long the other end may be silent: %w", os.NewSyscallError("setsockopt", err))
	}
	return nil
}
