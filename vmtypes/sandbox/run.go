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

	"vmop/printable"
)

// Usage is what a request has taken.
type Usage struct {
	// CPU is processor time.
	CPU time.Duration
	// Peak is the most memory that was resident, in bytes.
	Peak int64
}

// Run has request, which is sent as JSON, worked on in a process of its own, and
// decodes what that answers into result. Questions of the work are answered by
// answer; nil refuses them.
//
// The error is one of this package if a limit was reached, or ctx's.
func Run(
	ctx context.Context, request any, answer func(question json.RawMessage) (any, error), result any,
) (Usage, error) {
	if isChild() {
		return Usage{}, errors.New("start the sandboxed process: this program is such a process " +
			"itself; its main must begin with Serve")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, Wall, ErrWall)
	defer cancel()
	// The kernel ends the child with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := start(ctx)
	if err != nil {
		return Usage{}, fmt.Errorf("start the sandboxed process: %w", err)
	}
	talkErr := c.talk(request, answer, result)
	_ = c.cmd.Process.Kill() // it has nothing more to say, and may be gone
	waitErr := c.end()
	usage := usageOf(c.cmd.ProcessState)
	if talkErr == nil && ctx.Err() == nil {
		return usage, nil // what it did after its answer doesn't matter
	}
	return usage, c.explain(ctx, talkErr, waitErr, usage)
}

// child is the process, seen from its parent.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.Reader
	stderr *bounded
}

func start(ctx context.Context) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, "/proc/self/exe"), stderr: &bounded{}}
	c.cmd.Args = []string{os.Args[0], argument} // for those who list processes, too
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

// talk sends the request, answers questions, and reads the result.
func (c *child) talk(request any, answer func(json.RawMessage) (any, error), result any) error {
	to, from := json.NewEncoder(c.in), json.NewDecoder(c.out)
	if err := to.Encode(request); err != nil {
		return fmt.Errorf("send the request: %w", err)
	}
	for {
		var m message
		if err := from.Decode(&m); err != nil {
			if c.full() {
				return ErrAnswer
			}
			return fmt.Errorf("read the result: %w", err)
		}
		switch {
		case m.Error != "":
			return errors.New(clip(m.Error))
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

// full says that all was read that may be.
func (c *child) full() bool { return c.out.(*io.LimitedReader).N <= 0 }

// end closes the pipes and waits until the child is gone.
func (c *child) end() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}

// explain finds out why a child gave no result.
func (c *child) explain(ctx context.Context, talkErr, waitErr error, usage Usage) error {
	said := c.stderr.String()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !gone(talkErr):
		return talkErr // it said something wrong
	case strings.Contains(said, "stack overflow") || strings.Contains(said, "stack exceeds"):
		return ErrDepth
	case strings.Contains(said, "out of memory") || strings.Contains(said, "cannot allocate memory"):
		return ErrMemory
	case strings.Contains(said, timeIsOver) || killed(waitErr) && usage.CPU >= CPU/2:
		return ErrCPU
	case killed(waitErr):
		return errors.New("the sandboxed process was killed; check whether the host is out of memory")
	case said != "":
		return fmt.Errorf("the sandboxed process ended: %w: %s", waitErr, said)
	}
	return talkErr
}

// gone reports whether talking ended because the other end was gone.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)
}

// killed reports whether a process ended by the signal that the kernel sends at a
// limit.
func killed(err error) bool {
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

// longestText bounds what is quoted of a child.
const longestText = 4096

// bounded keeps the beginning of what is written.
type bounded struct{ buf bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.buf.Write(p[:min(len(p), longestText-b.buf.Len())])
	return len(p), nil
}

// String returns what was kept, fit for a terminal.
func (b *bounded) String() string { return clip(b.buf.String()) }

func clip(s string) string { return strings.TrimSpace(printable.Text(printable.Clip(s, longestText))) }
