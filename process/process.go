package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vmop/confine"
)

// killTime is how long the kernel gets to end a process after SIGKILL. It takes
// long only if the process is stuck in a system call.
const killTime = 10 * time.Second

// Spec says what to start.
type Spec struct {
	Name  string         // for log and errors
	Path  string         // of the program; $PATH is not searched
	Args  []string       // without the program's own name
	Dir   string         // working directory, "" for the caller's
	Env   []string       // NAME=value; nil for the caller's environment
	Files []*os.File     // become the descriptors 3, 4 …; the caller still closes them
	Rules *confine.Rules // what it may use; nil for all that the caller may
	CPUs  []int          // of the host, that it may run on; none for all that the caller may
	// Stdout gets what the process writes to its standard output, which then isn't logged; the
	// caller still closes it. Without one it is logged.
	Stdout *os.File
	// Limits are set as soon as the process is there (setrlimit(2)).
	Limits []Limit
}

// A Limit is the most of a resource that a process may use, such as unix.RLIMIT_CPU.
type Limit struct {
	Resource int
	Most     uint64 // in the unit of the resource: seconds, bytes, descriptors
}

// Process is a process that was started or adopted. Its methods may be called from any
// goroutine and at any time.
type Process struct {
	name string
	id   ID
	proc *os.Process
	out  *stream
	err  *stream
	held confine.Held
	// misplaced is why it doesn't run on the Spec's CPUs alone.
	misplaced error
	done      chan struct{} // closed when exit is set
	exit      Exit
}

// Prepare does what the first Start would do otherwise, whatever it starts: Go finds out, by
// a process that ends at once, whether the kernel has handles of processes, and makes the
// thread that makes threads beside one that is locked.
func Prepare() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release()
	}
	runtime.LockOSThread()
	runtime.UnlockOSThread()
}

// Start starts a process. Its standard input is /dev/null. Errors say what is wrong
// with the program, the working directory or the arguments, and wrap the errno.
func Start(spec Spec, logger *slog.Logger) (*Process, error) {
	p := &Process{name: spec.Name, done: make(chan struct{})}
	logger = logger.With("process", spec.Name)
	p.out = newStream("stdout", logger, 0)
	p.err = newStream("stderr", logger, TailSize)
	if err := p.start(spec); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	go p.out.read()
	go p.err.read()
	go p.wait()
	return p, nil
}

func (p *Process) start(spec Spec) (err error) {
	if err := spec.check(); err != nil {
		return err
	}
	var ours, theirs []*os.File
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	theirs = append(theirs, null)
	for _, s := range []*stream{p.out, p.err} {
		r, w, err := pipe(s.name)
		if err != nil {
			return err
		}
		s.r = r
		ours, theirs = append(ours, r), append(theirs, w)
	}
	files := slices.Concat(theirs, spec.Files)
	if spec.Stdout != nil {
		files[1] = spec.Stdout
	}
	err = p.startProcess(spec, &os.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return spec.explain(err)
	}
	// Its number is its own until it is collected, so it cannot be another's identity.
	if p.id, err = Identify(p.proc.Pid); err == nil {
		err = p.limit(append(spec.Limits[:len(spec.Limits):len(spec.Limits)], Limit{Resource: unix.RLIMIT_CORE}))
	}
	if err != nil {
		return errors.Join(err, p.discard())
	}
	return nil
}

// limit sets limits, one of which keeps the process from leaving a core: it would have the
// guest's memory, and the display's password. Of a set-uid program there is none anyway.
func (p *Process) limit(limits []Limit) error {
	for _, l := range limits {
		err := unix.Prlimit(p.proc.Pid, l.Resource, &unix.Rlimit{Cur: l.Most, Max: l.Most}, nil)
		if err != nil && !errors.Is(err, unix.EPERM) {
			return os.NewSyscallError("prlimit", err)
		}
	}
	return nil
}

// discard ends a process that was not handed out yet.
func (p *Process) discard() error {
	if err := p.proc.Kill(); err != nil {
		return err
	}
	_, err := p.proc.Wait()
	return err
}

// pipe returns a pipe whose reading end waits without a thread, and whose writing
// end blocks, as programs expect of their output. (os.Pipe makes both ends
// non-blocking.)
func pipe(name string) (r, w *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// wait waits for the end of the process and of what it said.
func (p *Process) wait() {
	// While the ended process has not been collected its number, and so its
	// group's, cannot belong to others.
	if p.awaitEnd() == nil {
		_ = syscall.Kill(-p.proc.Pid, syscall.SIGKILL)
	}
	state, err := p.proc.Wait()
	p.out.finish()
	p.err.finish()
	p.exit = Exit{Code: -1} // another part of the program has reaped the process
	if err == nil {
		p.exit = exitOf(state.Sys().(syscall.WaitStatus))
	}
	close(p.done)
}

// awaitEnd waits until the process has ended and leaves it to be collected.
func (p *Process) awaitEnd() error {
	for {
		err := unix.Waitid(unix.P_PID, p.proc.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Name returns the Spec's name.
func (p *Process) Name() string { return p.name }

// Pid returns the process's number, for the log. Signal is the way to signal it.
func (p *Process) Pid() int { return p.id.PID }

// ID returns the process's identity, by which another process can Adopt it.
func (p *Process) ID() ID { return p.id }

// Held returns what the kernel holds the process to: what was possible of the Spec's
// rules. It is not known of one that was adopted.
func (p *Process) Held() confine.Held { return p.held }

// Misplaced returns why the process does not run on the Spec's CPUs alone: it was started
// nevertheless. It is nil if it does, and for one that was adopted.
func (p *Process) Misplaced() error { return p.misplaced }

// Done is closed when the process has ended and all that it said is logged. What
// others say who inherited its output is not waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended, once Done is closed; before, the zero Exit.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// Tail returns the last of what the process has written to stderr, up to TailSize
// bytes of it, without a beginning that was cut off in a line. It is text for
// people: made printable, with the line ends.
func (p *Process) Tail() string { return p.err.tail.text() }

// Signal sends a signal to the process, not to its group. After the process's end
// the error wraps os.ErrProcessDone.
func (p *Process) Signal(sig syscall.Signal) error {
	err := p.proc.Signal(sig)
	select {
	case <-p.done:
		err = os.ErrProcessDone // also of an adopted one, whose handle is released
	default:
	}
	if err != nil {
		return fmt.Errorf("send %s to %s: %w", signalName(sig), p.name, err)
	}
	return nil
}

// Terminate ends the process: by SIGTERM, and if it has not ended when the grace is
// over, or ctx ends, by SIGKILL. It returns when the process has ended. An error
// means that it has not, 10 seconds after SIGKILL. It may be called more than
// once, and after the end.
func (p *Process) Terminate(ctx context.Context, grace time.Duration) error {
	// An error of a signal means that the end has come in between.
	_ = p.Signal(syscall.SIGTERM)
	_ = p.Signal(syscall.SIGCONT) // a stopped process would not see SIGTERM
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	_ = p.Signal(syscall.SIGKILL)
	timer.Reset(killTime)
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("end %s: process %d is still there %s after SIGKILL", p.name, p.Pid(), killTime)
	}
}
