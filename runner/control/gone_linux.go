package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is the process of a runner. It is identified by a descriptor. Unlike a process number, a descriptor
// is never reused for another process.
type Process struct{ file *os.File }

// Process returns the process that serves the socket; it must be closed. The error is ErrNotRunning if there is
// no process. It can't return a process in another PID namespace, such as a container.
func (c *Client) Process(ctx context.Context) (*Process, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // while it is open the process number is not reused
	cred, err := peerCredentials(conn)
	if err != nil {
		return nil, err
	}
	if cred.Pid <= 0 {
		return nil, errors.New("the runner's process is not visible here")
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
		return causeOf(ctx, fmt.Errorf("watch the runner: %w", err))
	}
	return nil
}

// Close ends the watch.
func (p *Process) Close() error { return p.file.Close() }
