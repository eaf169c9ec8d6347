package cluster

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"vmop/internal/childprocess"
)

// killProcess ends a process through a pidfd, because another process may have its number by now.
func killProcess(id childprocess.ID) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", id.PID, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !id.Runs() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", id.PID, err)
	}
	return nil
}
