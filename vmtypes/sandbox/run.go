package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vmop/internal/printable"
)

// Usage contains the resources that a request used.
type Usage struct {
	// CPU is processor time.
	CPU time.Duration
	// Peak is the maximum resident memory, in bytes.
	Peak int64
}

// Run processes a request in a separate process and decodes its result into result. The request is sent as JSON. answer
// answers the questions of the work; nil refuses all questions.
//
// If a limit was reached, the error is an error of this package. If ctx has ended, the error is the cause of ctx.
func Run(
	ctx context.Context, request any, answer func(question json.RawMessage) (any, error), result any,
) (Usage, error) {
	if isChild() {
		return Usage{}, errors.New("start the sandboxed process: this program is such a process " +
			"itself; its main must begin with Serve")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wall, errWall)
	defer cancel()
	// The kernel kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := startChild(ctx)
	if err != nil {
		return Usage{}, fmt.Errorf("start the sandboxed process: %w", err)
	}
	talkErr := c.talkTo(request, answer, result)
	_ = c.cmd.Process.Kill() // its answer is complete, or it has already ended
	waitErr := c.endChild()
	usage := usageOf(c.cmd.ProcessState)
	if talkErr == nil && ctx.Err() == nil {
		return usage, nil // its behavior after the answer is irrelevant
	}
	return usage, c.explainEnd(ctx, talkErr, waitErr, usage)
}

// child is the sandboxed process, seen from its parent.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	stderr *bounded
}

func startChild(ctx context.Context) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, "/proc/self/exe"), stderr: &bounded{}}
	c.cmd.Args = []string{os.Args[0], argument} // visible in lists of processes
	c.cmd.Env = []string{mark + "=1", "GOMAXPROCS=1", "GOMEMLIMIT=" + strconv.Itoa(Memory*3/4), "GOTRACEBACK=none"}
	c.cmd.Dir, c.cmd.Stderr = "/", c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, io.LimitReader(out, Largest)
	return c, c.cmd.Start()
}

// talkTo sends the request, answers questions, and reads the result.
func (c *child) talkTo(request any, answer func(json.RawMessage) (any, error), result any) error {
	to, from := json.NewEncoder(c.in), json.NewDecoder(c.out)
	if err := to.Encode(request); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	for {
		var m message
		if err := from.Decode(&m); err != nil {
			if c.isFull() {
				return ErrAnswer
			}
			return fmt.Errorf("read the result: %w", err)
		}
		switch {
		case m.Error != "":
			return errors.New(clipText(m.Error))
		case m.Result != nil:
			if err := json.Unmarshal(m.Result, result); err != nil {
				return fmt.Errorf("decode the result: %w", err)
			}
			return nil
		case m.Question == nil || answer == nil:
			return errors.New("read the result: unknown message")
		}
		said, err := answer(m.Question)
		if err != nil {
			return fmt.Errorf("answer a question: %w", err)
		}
		text, err := json.Marshal(said)
		if err != nil {
			return fmt.Errorf("answer a question: %w", err)
		}
		if err := to.Encode(message{Answer: text}); err != nil {
			return fmt.Errorf("answer a question: %w", err)
		}
	}
}

// isFull reports whether the child's output has reached its maximum size.
func (c *child) isFull() bool { return c.out.(*io.LimitedReader).N <= 0 }

// endChild closes the pipes and waits for the child to end.
func (c *child) endChild() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// explainEnd returns the reason why a child did not return a result.
func (c *child) explainEnd(ctx context.Context, talkErr, waitErr error, usage Usage) error {
	said := c.stderr.String()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !isGoneError(talkErr):
		return talkErr // it sent an invalid message
	case strings.Contains(said, "stack overflow") || strings.Contains(said, "stack exceeds"):
		return ErrDepth
	case strings.Contains(said, "out of memory") || strings.Contains(said, "cannot allocate memory"):
		return ErrMemory
	case strings.Contains(said, timeIsOver) || isKilled(waitErr) && usage.CPU >= CPU/2:
		return ErrCPU
	case isKilled(waitErr):
		return errors.New("the sandboxed process was killed; check whether the host is out of memory")
	case said != "":
		return fmt.Errorf("the sandboxed process ended: %w: %s", waitErr, said)
	}
	return talkErr
}

// isGoneError reports whether the communication ended because the other end was closed.
func isGoneError(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)
}

// isKilled reports whether a process was ended by the signal that the kernel sends at a limit.
func isKilled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

func usageOf(state *os.ProcessState) Usage {
	u := Usage{CPU: state.UserTime() + state.SystemTime()}
	if r, ok := state.SysUsage().(*syscall.Rusage); ok {
		u.Peak = r.Maxrss << 10
	}
	return u
}

// longestText is the maximum length of quotations from a child, in bytes.
const longestText = 4096

// bounded keeps only the beginning of the written text.
type bounded struct{ buf bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.buf.Write(p[:min(len(p), longestText-b.buf.Len())])
	return len(p), nil
}

// String returns the kept text, safe for a terminal.
func (b *bounded) String() string { return clipText(b.buf.String()) }

func clipText(s string) string {
	return strings.TrimSpace(printable.Text(printable.Clip(s, longestText)))
}
