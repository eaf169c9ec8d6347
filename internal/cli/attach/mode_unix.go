//go:build linux || darwin

package attach

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ConsoleMode makes the terminal deliver each key unprocessed. Output processing stays on, so log lines begin in the
// first column.
func ConsoleMode(fd int, ctrlC Interrupt) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, fmt.Errorf("read the terminal's settings: %w", err)
	}
	raw := *before
	raw.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.IXON | unix.ISTRIP
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.IEXTEN
	raw.Cc[unix.VQUIT], raw.Cc[unix.VSUSP] = 0, 0
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if ctrlC == InterruptGuest {
		raw.Lflag &^= unix.ISIG
	}
	if err := unix.IoctlSetTermios(fd, setTermios, &raw); err != nil {
		return nil, fmt.Errorf("set the terminal for the console: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, before) }, nil // the terminal may be gone
}
