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
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"vmop/runner/control"
	"vmop/runner/prepare"
)

// restTime bounds the wait for output that is still in the socket.
const restTime = time.Second

// longestLine is how much of an incomplete line is kept for --poweroff-on, in bytes.
const longestLine = 4096

// errReported is why a VM is powered off with --poweroff-on.
var errReported = errors.New("a line of the console matched --poweroff-on")

// consoleView shows the guest's serial console on the standard streams of this program.
type consoleView struct {
	out      io.Writer
	log      *slog.Logger
	until    *regexp.Regexp // --poweroff-on, or nil
	powerOff context.CancelCauseFunc

	conn     net.Conn
	line     []byte
	matched  atomic.Bool
	detached atomic.Bool
	restore  func()
	done     chan struct{} // closed when the guest's output has ended
}

// attach connects to the console of a VM that is about to run.
func (c *consoleView) attach(ctx context.Context, vm *prepare.VM) error {
	if vm.Plan.Socket("console") == "" {
		return errors.New("the VM has no serial console: its type has none, or serialConsole.enabled is false")
	}
	client, err := control.Dial(ctx, filepath.Join(vm.RuntimeDir, control.SocketName))
	if err != nil {
		return err
	}
	conn, err := client.Console(ctx, control.Type)
	if err != nil {
		return fmt.Errorf("the VM's serial console: %w", err)
	}
	onTerminal := term.IsTerminal(int(os.Stdin.Fd())) && c.until == nil
	if onTerminal {
		if c.restore, err = consoleMode(int(os.Stdin.Fd()), interruptProgram); err != nil {
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

// close shows the rest of the output and restores the terminal.
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

// missed reports whether no line of the console has matched --poweroff-on.
func (c *consoleView) missed() bool { return c.until != nil && !c.matched.Load() }

// show copies the guest's output.
func (c *consoleView) show() {
	defer close(c.done)
	buf := make([]byte, 4096)
	for {
		n, err := c.conn.Read(buf)
		if !c.detached.Load() {
			_, _ = c.out.Write(buf[:n]) // the output may be closed
		}
		c.scan(buf[:n])
		if err != nil {
			return
		}
	}
}

// scan matches --poweroff-on against whole lines.
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

// typeInto forwards what is typed. The detach key hides the console, Return shows it
// again.
func (c *consoleView) typeInto() {
	for {
		if detached, err := forwardKeys(c.conn, os.Stdin); !detached || err != nil {
			return
		}
		c.detached.Store(true)
		fmt.Fprintln(os.Stderr,
			"\nDetached; the VM keeps running. Return attaches again, Ctrl-C asks the guest to power off.")
		if !awaitReturn(os.Stdin) {
			return
		}
		c.detached.Store(false)
		fmt.Fprintln(os.Stderr, "Attached again. ^] detaches, Ctrl-C asks the guest to power off.")
	}
}
