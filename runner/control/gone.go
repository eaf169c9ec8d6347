package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is that of a runner. It is known by a descriptor, which never means
// another one, unlike a number.
type Process struct{ file *os.File }

// Process returns the process that serves the socket; it must be closed. The
// error is ErrNotRunning if there is none. A process that cannot be seen from
// here, as from the namespace of another container, is an error, too.
func (c *Client) Process(ctx context.Context) (*Process, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // while it is open it proves who has the number
	cred, err := credentials(conn)
	if err != nil {
		return nil, err
	}
	if cred.Pid <= 0 {
		return nil, errors.New("the runner's process cannot be seen from here")
	}
	fd, err := unix.PidfdOpen(int(cred.Pid), unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch runner process %d: %w", cred.Pid, err)
	}
	return &Process{os.NewFile(uintptr(fd), "runner")}, nil
}

// Wait waits until the process has ended. The error is the context's.
func (p *Process) Wait(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) })()
	raw, err := p.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch the runner: %w", err)
	}
	err = raw.Read(func(fd uintptr) (ended bool) {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0
	})
	if err != nil {
		return because(ctx, fmt.Errorf("watch the runner: %w", err))
	}
	return nil
}

// Close ends the watch.
func (p *Process) Close() error { return p.file.Close() }
