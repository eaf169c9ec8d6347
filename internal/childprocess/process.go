package childprocess

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

	"vmop/internal/confine"
)

// killTime is the time for the kernel to end a process after SIGKILL. It takes long only if the process is stuck in
// a system call.
const killTime = 10 * time.Second

// Spec describes the process to start.
type Spec struct {
	Name  string         // for the log and errors
	Path  string         // of the program; $PATH is not searched
	Args  []string       // without the program's own name
	Dir   string         // working directory; "" means the caller's
	Env   []string       // NAME=value; nil means the caller's environment
	Files []*os.File     // become the descriptors 3, 4 …; the caller still closes them
	Rules *confine.Rules // what it may use; nil means everything that the caller may use
	CPUs  []int          // CPUs of the host that it may run on; empty means the caller's
	// Stdout receives the standard output, which then isn't logged; the caller still closes it. If it is nil, the
	// standard output is logged.
	Stdout *os.File
	// Limits are set immediately after the process starts (setrlimit(2)).
	Limits []Limit
}

// A Limit is the maximum that a process may use of a resource, such as unix.RLIMIT_CPU.
type Limit struct {
	Resource int
	Most     uint64 // in the unit of the resource: seconds, bytes, descriptors
}

// Process is a started or adopted process. All methods are safe for concurrent use.
type Process struct {
	name string
	id   ID
	proc *os.Process
	out  *stream
	err  *stream
	held confine.Held
	// misplaced is the reason why it doesn't run only on the Spec's CPUs.
	misplaced error
	done      chan struct{} // closed when exit is set
	exit      Exit
}

// Prepare does in advance what the first Start would do otherwise. Go starts a short-lived process to test whether
// the kernel supports process handles, and starts the thread that creates threads when the current thread is locked.
func Prepare() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release()
	}
	runtime.LockOSThread()
	runtime.UnlockOSThread()
}

// Start starts a process. Its standard input is /dev/null. Errors describe what is wrong with the program, the
// working directory or the arguments, and wrap the errno.
func Start(spec Spec, logger *slog.Logger) (*Process, error) {
	p := &Process{name: spec.Name, done: make(chan struct{})}
	logger = logger.With("process", spec.Name)
	p.out = newStream("stdout", logger, 0)
	p.err = newStream("stderr", logger, TailSize)
	if err := p.startSpec(spec); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	go p.out.readStream()
	go p.err.readStream()
	go p.waitForEnd()
	return p, nil
}

func (p *Process) startSpec(spec Spec) (err error) {
	if err := spec.checkSpec(); err != nil {
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
		r, w, err := newPipe(s.name)
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
		return spec.explainExec(err)
	}
	// The process keeps its number until it is collected, so the identity can't belong to another process.
	if p.id, err = Identify(p.proc.Pid); err == nil {
		err = p.setLimits(append(spec.Limits[:len(spec.Limits):len(spec.Limits)], Limit{Resource: unix.RLIMIT_CORE}))
	}
	if err != nil {
		return errors.Join(err, p.discardProcess())
	}
	return nil
}

// setLimits sets the limits. The last of them prevents a core dump, which would contain the guest's memory and the
// display's password. A set-uid program never dumps core.
func (p *Process) setLimits(limits []Limit) error {
	for _, l := range limits {
		err := unix.Prlimit(p.proc.Pid, l.Resource, &unix.Rlimit{Cur: l.Most, Max: l.Most}, nil)
		if err != nil && !errors.Is(err, unix.EPERM) {
			return os.NewSyscallError("prlimit", err)
		}
	}
	return nil
}

// discardProcess ends a process that Start hasn't returned yet.
func (p *Process) discardProcess() error {
	if err := p.proc.Kill(); err != nil {
		return err
	}
	_, err := p.proc.Wait()
	return err
}

// newPipe returns a pipe. Waiting at its reading end needs no thread. Its writing end blocks, as programs expect of
// their output. (os.Pipe makes both ends non-blocking.)
func newPipe(name string) (r, w *os.File, err error) {
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

// waitForEnd waits for the end of the process and of its output.
func (p *Process) waitForEnd() {
	// Until the ended process is collected, its number, and therefore its group's, can't belong to another process.
	if p.awaitEnd() == nil {
		_ = syscall.Kill(-p.proc.Pid, syscall.SIGKILL)
	}
	state, err := p.proc.Wait()
	p.out.finishStream()
	p.err.finishStream()
	p.exit = Exit{Code: -1} // another part of the program has reaped the process
	if err == nil {
		p.exit = exitOf(state.Sys().(syscall.WaitStatus))
	}
	close(p.done)
}

// awaitEnd waits until the process has ended, without collecting it.
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

// Pid returns the process's number for the log. Use Signal to send signals.
func (p *Process) Pid() int { return p.id.PID }

// ID returns the process's identity, for Adopt in another process.
func (p *Process) ID() ID { return p.id }

// Held returns which of the Spec's rules the kernel enforces. It is empty for an adopted process.
func (p *Process) Held() confine.Held { return p.held }

// Misplaced returns the reason why the process doesn't run only on the Spec's CPUs, although it was started. It
// returns nil if it does, and for an adopted process.
func (p *Process) Misplaced() error { return p.misplaced }

// Done is closed when the process has ended and its output is logged. It doesn't wait for the output of other
// processes that inherited its streams.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit returns how the process ended. Before Done is closed, it returns the zero Exit.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// Tail returns the end of the process's stderr, up to TailSize bytes, without a truncated first line. The text is
// printable and contains the line ends.
func (p *Process) Tail() string { return p.err.tail.tailText() }

// Signal sends a signal to the process, not to its group. After the end of the process the error wraps
// os.ErrProcessDone.
func (p *Process) Signal(sig syscall.Signal) error {
	err := p.proc.Signal(sig)
	select {
	case <-p.done:
		err = os.ErrProcessDone // also for an adopted process, which has released its handle
	default:
	}
	if err != nil {
		return fmt.Errorf("send %s to %s: %w", signalName(sig), p.name, err)
	}
	return nil
}

// Terminate ends the process with SIGTERM and, after grace or when ctx ends, with SIGKILL. It returns when the
// process has ended. It returns an error if the process hasn't ended 10 seconds after SIGKILL. You can call it more
// than once, and after the end.
func (p *Process) Terminate(ctx context.Context, grace time.Duration) error {
	// An error of a signal means that the process has ended in the meantime.
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
		return fmt.Errorf("end %s: process %d still exists %s after SIGKILL", p.name, p.Pid(), killTime)
	}
}
