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

	"vmop/internal/cli/attach"
	"vmop/runner/control"
	"vmop/runner/prepare"
)

// restTime limits the wait for output that is still in the socket.
const restTime = time.Second

// longestNotice is the length of the end of the output that is kept, in bytes. It contains the runner's notice
// that another client has taken over the console.
const longestNotice = 256

// longestLine is the maximum length of an incomplete line that is kept for --poweroff-on, in bytes.
const longestLine = 4096

// errReported is the reason for powering a VM off with --poweroff-on.
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
	conn  net.Conn      // the console shown; nil: detached
	done  chan struct{} // closed when its output has ended
	again control.Mode  // mode that Return attaches with
}

// attachConsole connects to the console of a VM that is about to start.
func (c *consoleView) attachConsole(ctx context.Context, vm *prepare.VM) error {
	if vm.Plan.Socket("console") == "" {
		return errors.New("the VM has no serial console: its type has none, or serialConsole.enabled is false")
	}
	client, err := control.Dial(ctx, filepath.Join(vm.RuntimeDir, control.SocketName))
	if err != nil {
		return err
	}
	c.open = func(mode control.Mode) (net.Conn, error) {
		ctx, cancel := boundRequest(context.WithoutCancel(ctx))
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
		c.printNotice("Serial console of %s. ^] detaches, Ctrl-C asks the guest to power off.", vm.Spec.Name)
		if c.out.shared && c.out.holds {
			c.printNotice("Meanwhile the log has only warnings; the rest follows when the console is left.")
		}
	}
	c.showConn(conn)
	if c.onTerminal {
		go c.typeInto(os.Stdin)
	}
	return nil
}

// detachConsole shows the remaining output and restores the terminal.
func (c *consoleView) detachConsole() {
	if conn, done := c.shownConn(); conn != nil {
		drainConn(conn, done) // QEMU has ended, and so has the output
	}
	c.out.endLine()
	if c.restore != nil {
		c.restore()
	}
}

// printNotice writes a line for the user at the terminal.
func (c *consoleView) printNotice(format string, args ...any) {
	fmt.Fprintf(consoleLines{c.out, true}, format+"\n", args...)
}

// drainConn reads the remaining output of a connection and closes it.
func drainConn(conn net.Conn, done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(restTime):
	}
	_ = conn.Close() // nothing can be lost: the connection was only read
	<-done
}

// shownConn returns the connection that is shown, or nil.
func (c *consoleView) shownConn() (conn net.Conn, done <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn, c.done
}

// leaveConn stops showing a connection, and reports whether it was shown. Return then attaches with mode again.
func (c *consoleView) leaveConn(conn net.Conn, again control.Mode) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != conn {
		return false
	}
	c.conn, c.again = nil, again
	return true
}

// missedPattern reports whether --poweroff-on is set and no line of the console has matched it.
func (c *consoleView) missedPattern() bool { return c.until != nil && !c.matched.Load() }

// showConn starts to copy the guest's output.
func (c *consoleView) showConn(conn net.Conn) {
	done := make(chan struct{})
	c.mu.Lock()
	c.conn, c.done = conn, done
	c.mu.Unlock()
	c.out.showConsole()
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
		if now, _ := c.shownConn(); now == conn {
			_, _ = c.out.Write(buf[:n]) // the output may be closed
		}
		c.scanLines(buf[:n])
		end = append(end, buf[:n]...)
		end = end[max(0, len(end)-longestNotice):]
		if err == nil {
			continue
		}
		if c.onTerminal && control.TakenOver(end) && c.leaveConn(conn, control.Take) {
			_ = conn.Close() // it has ended
			c.out.endLine()
			c.printNotice("The VM keeps running. Return takes the console back, Ctrl-C asks the guest to power off.")
		}
		return
	}
}

// scanLines matches --poweroff-on against whole lines.
func (c *consoleView) scanLines(data []byte) {
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

// typeInto forwards the user's input. The detach key releases the console, Return attaches again.
func (c *consoleView) typeInto(in io.Reader) {
	buf := make([]byte, 1024)
	for {
		n, err := in.Read(buf)
		c.forwardKeys(buf[:n])
		if err != nil {
			return
		}
	}
}

// forwardKeys forwards keys, up to the detach key.
func (c *consoleView) forwardKeys(keys []byte) {
	conn, done := c.shownConn()
	if conn == nil {
		if bytes.ContainsAny(keys, "\r\n") {
			c.attachAgain()
		}
		return
	}
	keys, _, detach := bytes.Cut(keys, []byte{attach.DetachKey})
	_, _ = conn.Write(keys) // copyFrom notices a closed connection
	if !detach || !c.leaveConn(conn, control.Type) {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the runner closes the other half when another client may type
	}
	drainConn(conn, done)
	c.out.endLine()
	c.printNotice("Detached; the VM keeps running. Return attaches again, Ctrl-C asks the guest to power off.")
}

// attachAgain shows the console again. If another client is using it, it reports that, and the next Return takes
// the console over.
func (c *consoleView) attachAgain() {
	c.mu.Lock()
	mode := c.again
	c.mu.Unlock()
	conn, err := c.open(mode)
	var refused *control.AnswerError
	switch {
	case err == nil:
		c.printNotice("Attached again. ^] detaches, Ctrl-C asks the guest to power off.")
		c.showConn(conn)
	case errors.As(err, &refused) && refused.Code == http.StatusLocked:
		c.printNotice("%v. Return takes it over, Ctrl-C asks the guest to power off.", err)
		c.leaveConn(nil, control.Take)
	default:
		c.printNotice("The console can't be attached: %v", err)
	}
}
