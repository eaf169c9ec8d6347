package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"vmop/cli/attach"
	"vmop/runner/control"
	"vmop/runner/prepare"
)

// restTime bounds the wait for output that is still in the socket.
const restTime = time.Second

// longestNotice is how much of the end of the output is kept, in which the runner says who
// has taken the console over.
const longestNotice = 256

// longestLine is how much of an incomplete line is kept for --poweroff-on, in bytes.
const longestLine = 4096

// errReported is why a VM is powered off with --poweroff-on.
var errReported = errors.New("a line of the console matched --poweroff-on")

// consoleView shows the guest's serial console on the standard streams of this program.
type consoleView struct {
	out      *consoleLog
	log      *slog.Logger
	until    *regexp.Regexp // --poweroff-on, or nil
	powerOff context.CancelCauseFunc

	onTerminal bool
	open       func(control.Mode) (net.Conn, error)
	line       []byte
	matched    atomic.Bool
	restore    func()

	mu    sync.Mutex
	conn  net.Conn      // that is shown; nil: detached
	done  chan struct{} // closed when its output has ended
	again control.Mode  // by which Return attaches
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
	c.open = func(mode control.Mode) (net.Conn, error) {
		ctx, cancel := patient(context.WithoutCancel(ctx))
		defer cancel()
		return client.Console(ctx, mode)
	}
	conn, err := c.open(control.Type)
	if err != nil {
		return fmt.Errorf("the VM's serial console: %w", err)
	}
	c.onTerminal = term.IsTerminal(int(os.Stdin.Fd())) && c.until == nil
	if c.onTerminal {
		if c.restore, err = attach.ConsoleMode(int(os.Stdin.Fd()), attach.InterruptProgram); err != nil {
			return errors.Join(err, conn.Close())
		}
		c.print("Serial console of %s. ^] detaches, Ctrl-C asks the guest to power off.", vm.Spec.Name)
		if c.out.shared && c.out.holds {
			c.print("Meanwhile the log has only warnings; the rest follows when the console is left.")
		}
	}
	c.show(conn)
	if c.onTerminal {
		go c.typeInto(os.Stdin)
	}
	return nil
}

// close shows the rest of the output and restores the terminal.
func (c *consoleView) close() {
	if conn, done := c.shown(); conn != nil {
		rest(conn, done) // QEMU has ended, and with it the output
	}
	c.out.leave()
	if c.restore != nil {
		c.restore()
	}
}

// print writes a line for the person at the terminal.
func (c *consoleView) print(format string, args ...any) {
	fmt.Fprintf(consoleLines{c.out, true}, format+"\n", args...)
}

// rest reads what a connection still has, and closes it.
func rest(conn net.Conn, done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(restTime):
	}
	_ = conn.Close() // it was only read from
	<-done
}

// shown returns the connection that is shown, or nil.
func (c *consoleView) shown() (conn net.Conn, done <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn, c.done
}

// leave has a connection shown no more, and reports whether it was. Return then attaches by
// a mode.
func (c *consoleView) leave(conn net.Conn, again control.Mode) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != conn {
		return false
	}
	c.conn, c.again = nil, again
	return true
}

// missed reports whether no line of the console has matched --poweroff-on.
func (c *consoleView) missed() bool { return c.until != nil && !c.matched.Load() }

// show begins to copy the guest's output.
func (c *consoleView) show(conn net.Conn) {
	done := make(chan struct{})
	c.mu.Lock()
	c.conn, c.done = conn, done
	c.mu.Unlock()
	c.out.show()
	go func() {
		defer close(done)
		c.copyFrom(conn)
	}()
}

// copyFrom copies the guest's output until it ends.
func (c *consoleView) copyFrom(conn net.Conn) {
	var end []byte
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if now, _ := c.shown(); now == conn {
			_, _ = c.out.Write(buf[:n]) // the output may be closed
		}
		c.scan(buf[:n])
		end = append(end, buf[:n]...)
		end = end[max(0, len(end)-longestNotice):]
		if err == nil {
			continue
		}
		if c.onTerminal && control.TakenOver(end) && c.leave(conn, control.Take) {
			_ = conn.Close() // it has ended
			c.out.leave()
			c.print("The VM keeps running. Return takes the console back, Ctrl-C asks the guest to power off.")
		}
		return
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

// typeInto forwards what is typed. The detach key gives the console away, Return takes it
// again.
func (c *consoleView) typeInto(in io.Reader) {
	buf := make([]byte, 1024)
	for {
		n, err := in.Read(buf)
		c.typed(buf[:n])
		if err != nil {
			return
		}
	}
}

// typed forwards keys, up to the detach key.
func (c *consoleView) typed(keys []byte) {
	conn, done := c.shown()
	if conn == nil {
		if bytes.ContainsAny(keys, "\r\n") {
			c.attachAgain()
		}
		return
	}
	keys, _, detach := bytes.Cut(keys, []byte{attach.DetachKey})
	_, _ = conn.Write(keys) // its end is noticed where it is read
	if !detach || !c.leave(conn, control.Type) {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the runner closes the rest when another client may type
	}
	rest(conn, done)
	c.out.leave()
	c.print("Detached; the VM keeps running. Return attaches again, Ctrl-C asks the guest to power off.")
}

// attachAgain shows the console again. Another client that has it keeps it at first.
func (c *consoleView) attachAgain() {
	c.mu.Lock()
	mode := c.again
	c.mu.Unlock()
	conn, err := c.open(mode)
	var refused *control.AnswerError
	switch {
	case err == nil:
		c.print("Attached again. ^] detaches, Ctrl-C asks the guest to power off.")
		c.show(conn)
	case errors.As(err, &refused) && refused.Code == http.StatusLocked:
		c.print("%v. Return takes it over, Ctrl-C asks the guest to power off.", err)
		c.leave(nil, control.Take)
	default:
		c.print("The console can't be attached: %v", err)
	}
}
