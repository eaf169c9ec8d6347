package attach

import (
	"bytes"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// DetachKey leaves the console: ^], as in telnet and virsh.
const DetachKey = 0x1d

// forwardKeys forwards what is typed up to the detach key, and reports whether that was
// pressed. What was read together with the key and follows it is dropped.
func forwardKeys(to io.Writer, from io.Reader) (detached bool, err error) {
	buf := make([]byte, 1024)
	for {
		n, readErr := from.Read(buf)
		data, _, detached := bytes.Cut(buf[:n], []byte{DetachKey})
		if len(data) > 0 {
			if _, err := to.Write(data); err != nil {
				return false, err
			}
		}
		if detached || readErr != nil {
			return detached, readErr
		}
	}
}

// Interrupt is what Ctrl-C does in console mode.
type Interrupt bool

const (
	InterruptProgram Interrupt = true  // it stays a signal
	InterruptGuest   Interrupt = false // it goes to the guest
)

// ConsoleMode makes the terminal deliver each key unprocessed. Output processing stays
// on, so that log lines begin in the first column.
func ConsoleMode(fd int, ctrlC Interrupt) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
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
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("set the terminal for the console: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil // the terminal may be gone
}
