package attach

import (
	"bytes"
	"io"
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
