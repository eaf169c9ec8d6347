package attach

import (
	"bytes"
	"io"
)

// DetachKey leaves the console: ^], as in telnet and virsh.
const DetachKey = 0x1d

// forwardKeys forwards typed bytes up to the detach key, and reports whether the user pressed it. It drops bytes
// that were read together with the key and follow it.
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

// Interrupt determines the effect of Ctrl-C in console mode.
type Interrupt bool

const (
	InterruptProgram Interrupt = true  // Ctrl-C remains a signal
	InterruptGuest   Interrupt = false // Ctrl-C goes to the guest
)
