package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"vmop/runner"
)

// detachKey leaves the console: ^], as in telnet and virsh.
const detachKey = 0x1d

// restTime bounds the wait for output that is still in the socket.
const restTime = time.Second

// longestLine is how much of an unfinished line is kept to look for a pattern.
const longestLine = 4096

// errReported is why a VM is powered off with --poweroff-on.
var errReported = errors.New("the guest has reported")

// consoleView shows the guest's serial console on the program's own streams.
type consoleView struct {
	out      io.Writer
	log      *slog.Logger
	until    *regexp.Regexp // nil: stay
	powerOff context.CancelCauseFunc

	conn     net.Conn
	line     []byte
	matched  atomic.Bool
	detached atomic.Bool
	restore  func()
	done     chan struct{} // closed when the guest's output has ended
}

// attach connects to the console of a VM that is about to run.
func (c *consoleView) attach(ctx context.Context, vm *runner.VM) error {
	path := vm.Plan.Socket("console")
	if path == "" {
		return errors.New("the VM has no serial console: its type makes none, or serialConsole.enabled is false")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("connect to the serial console: %w", err)
	}
	onTerminal := term.IsTerminal(int(os.Stdin.Fd())) && c.until == nil
	if onTerminal {
		if c.restore, err = consoleMode(int(os.Stdin.Fd())); err != nil {
			return errors.Join(err, conn.Close())
		}
		fmt.Fprintf(os.Stderr, "Serial console of %s. ^] detaches, Ctrl-C asks the guest to power off.\n", vm.Spec.Name)
	}
	c.conn, c.done = conn, make(chan struct{})
	go c.show()
	if onTerminal {
		go c.typeInto()
	}
	return nil
}

// close shows the rest of the output and gives the terminal back.
func (c *consoleView) close() {
	if c.done != nil {
		select {
		case <-c.done: // QEMU has ended, and with it the output
		case <-time.After(restTime):
		}
		_ = c.conn.Close() // it was only read from
		<-c.done
	}
	if c.restore != nil {
		c.restore()
	}
}

// missed says that the VM ended without having said what was waited for.
func (c *consoleView) missed() bool { return c.until != nil && !c.matched.Load() }

// show copies the guest's output.
func (c *consoleView) show() {
	defer close(c.done)
	buf := make([]byte, 4096)
	for {
		n, err := c.conn.Read(buf)
		if !c.detached.Load() {
			_, _ = c.out.Write(buf[:n]) // nobody may be looking
		}
		c.scan(buf[:n])
		if err != nil {
			return
		}
	}
}

// scan looks for the pattern in whole lines.
func (c *consoleView) scan(data []byte) {
	if c.until == nil {
		return
	}
	c.line = append(c.line, data...)
	for {
		line, rest, ok := bytes.Cut(c.line, []byte("\n"))
		if !ok {
			break
		}
		if c.until.Match(bytes.TrimRight(line, "\r")) && !c.matched.Swap(true) {
			c.powerOff(errReported)
		}
		c.line = rest
	}
	if len(c.line) > longestLine {
		c.line = c.line[len(c.line)-longestLine:]
	}
}

// typeInto hands on what is typed, until the detach key.
func (c *consoleView) typeInto() {
	buf := make([]byte, 1024)
	for {
		n, err := os.Stdin.Read(buf)
		if err != nil {
			return
		}
		if c.detached.Load() {
			if bytes.ContainsAny(buf[:n], "\r\n") {
				c.detached.Store(false)
				fmt.Fprintln(os.Stderr, "Attached again. ^] detaches, Ctrl-C asks the guest to power off.")
			}
			continue
		}
		data, after, detach := bytes.Cut(buf[:n], []byte{detachKey})
		if _, err := c.conn.Write(data); err != nil {
			return
		}
		if detach {
			_ = after // what follows the key is not for the guest
			c.detached.Store(true)
			fmt.Fprintln(os.Stderr, "\nDetached; the VM runs on. Return attaches again, Ctrl-C asks the guest to power off.")
		}
	}
}

// consoleMode makes the terminal hand on each key as it is, except Ctrl-C,
// which stays a signal. Output is processed as before, so that log lines begin
// at the left.
func consoleMode(fd int) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("read the terminal's settings: %w", err)
	}
	raw := *before
	raw.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.IXON | unix.ISTRIP
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.IEXTEN
	raw.Cc[unix.VQUIT], raw.Cc[unix.VSUSP] = 0, 0
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, fmt.Errorf("set the terminal for the console: %w", err)
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, nil // the terminal may be gone
}
