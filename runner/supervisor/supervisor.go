package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"vmop/internal/childprocess"
)

// Spec describes the runner.
type Spec struct {
	Path string       // of the program
	Args []string     // its whole command line, the name of the program first
	Log  *slog.Logger // receives what happens to the runner
}

// askedVariable is the environment variable with the number of the signal that requested a stop from an earlier
// runner.
const askedVariable = "VMRUNNER_ASKED_TO_STOP"

// AskedToStop returns the signal that requested a stop of this VM before this process, its runner, was started; 0
// if there was no request. It removes the variable from the environment, so that children don't inherit it.
func AskedToStop() syscall.Signal {
	number, err := strconv.Atoi(os.Getenv(askedVariable))
	if err != nil {
		return 0
	}
	_ = os.Unsetenv(askedVariable)
	return syscall.Signal(number)
}

// supervisor is the state of Run.
type supervisor struct {
	Spec
	runner  int            // process ID; 0 if no runner is running
	started time.Time      // start of the runner
	quick   int            // consecutive deaths soon after the start
	asked   syscall.Signal // the signal of a stop request, or 0
	again   *time.Timer    // starts the next runner, if no runner is running
	keeps   bool           // ended children are kept, for the next runner to see how they ended
	settled *time.Timer    // ends that
}

// Run starts the runner, and restarts it whenever it is killed, until it exits. It returns the runner's exit
// code, or an error if the runner could not be started, the first time or after a stop was requested. A context
// that is done when Run is called counts as TERM; later its end has no effect.
//
// Run reaps all children of this process: it must not have others.
func Run(ctx context.Context, spec Spec) (code int, err error) {
	signals, deaths := make(chan os.Signal, 16), make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2)
	defer signal.Stop(deaths)
	defer signal.Stop(signals)
	// A core dump would write the runner's memory, with the display's password, to a file.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return 0, fmt.Errorf("disable core dumps: %w", err)
	}
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return 0, fmt.Errorf("become the parent of orphans: %w", err)
		}
	}
	s := &supervisor{Spec: spec, again: time.NewTimer(0), settled: time.NewTimer(0)}
	s.again.Stop()
	s.settled.Stop()
	if ctx.Err() != nil {
		s.asked = syscall.SIGTERM
	}
	if err := s.startRunner(); err != nil {
		return 0, err
	}
	debug.FreeOSMemory() // memory of the program's start
	for {
		died := false
		select {
		case <-deaths:
			died = true
		case <-s.settled.C:
			s.keeps, died = false, true
		case sig := <-signals:
			err = s.passSignal(sig.(syscall.Signal))
		case <-s.again.C:
			err = s.restartRunner()
		}
		if err != nil {
			s.warnOfRest()
			return 0, err
		}
		if !died {
			continue
		}
		if exit, ended := s.collectChildren(); ended && !s.gaveUp(exit) {
			s.warnOfRest()
			return exit, nil
		}
	}
}

// startRunner starts the runner.
func (s *supervisor) startRunner() error {
	err := os.Setenv("GOTRACEBACK", "crash")
	if s.asked != 0 {
		err = errors.Join(err, os.Setenv(askedVariable, strconv.Itoa(int(s.asked))))
	}
	if err != nil {
		return err
	}
	pid, err := syscall.ForkExec(s.Path, s.Args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return fmt.Errorf("start runner %s: %w", s.Path, err)
	}
	s.runner, s.started = pid, time.Now()
	return nil
}

// restartRunner starts the next runner. A failure is an error only after a stop was requested; otherwise there is
// another attempt.
func (s *supervisor) restartRunner() error {
	err := s.startRunner()
	switch {
	case err == nil:
		s.settled.Reset(longLife)
		s.Log.Info("runner started again", "pid", s.runner)
	case s.asked != 0:
		return err
	default:
		s.quick++
		s.Log.Error("runner cannot be started", "err", err.Error(), "again", restartDelay(s.quick).String())
		s.again.Reset(restartDelay(s.quick))
	}
	return nil
}

// passSignal forwards a signal to the runner.
func (s *supervisor) passSignal(sig syscall.Signal) error {
	stop := sig == syscall.SIGTERM || sig == syscall.SIGINT
	if stop && s.asked == 0 {
		s.asked = sig
	}
	if s.runner != 0 { // not reaped, so the number is still the runner's
		_ = syscall.Kill(s.runner, sig)
		return nil
	}
	if !stop {
		s.Log.Warn("signal dropped: there is no runner", "signal", unix.SignalName(sig))
		return nil
	}
	s.again.Stop()
	return s.restartRunner()
}

// collectChildren reaps the children that have ended. If the runner has exited it returns its exit code.
func (s *supervisor) collectChildren() (exit int, ended bool) {
	for {
		of := s.nextEnded()
		if of == 0 {
			return exit, ended
		}
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(of, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return exit, ended
		case pid != s.runner:
		case status.Signaled():
			s.noteKilled(status)
		default:
			s.runner, exit, ended = 0, status.ExitStatus(), true
		}
	}
}

// nextEnded returns the ended child to reap next, or 0. The runner comes first. After its death, nextEnded returns no
// other child, so that the next runner can see how QEMU has ended. The children that a runner leaves appear only when
// it has ended, so they have to be listed before the runner is checked.
func (s *supervisor) nextEnded() int {
	first := endedChild(unix.P_ALL, 0)
	switch {
	case s.runner != 0 && endedChild(unix.P_PID, s.runner) != 0:
		return s.runner
	case s.keeps:
		return 0
	}
	return first
}

// endedChild returns the number of a child that has ended, without reaping it; 0 if there is none.
func endedChild(kind, id int) int {
	var info struct { // siginfo_t of 64-bit Linux
		_   [4]int32
		pid int32
		_   [27]int32
	}
	err := unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err != nil { // no child, or no child with that number
		return 0
	}
	return int(info.pid)
}

// gaveUp reports whether a failed runner has left a machine behind, which would die with a container. If so, it
// schedules another runner.
func (s *supervisor) gaveUp(exit int) bool {
	if exit == 0 || s.asked != 0 {
		return false
	}
	left := runningChildren(os.Getpid())
	if len(left) > 0 {
		s.replaceRunner("processes", strings.Join(left, ", "), "exit", childprocess.Exit{Code: exit}.String())
	}
	return len(left) > 0
}

// noteKilled schedules another runner.
func (s *supervisor) noteKilled(status syscall.WaitStatus) {
	exit := childprocess.Exit{Code: -1, Signal: status.Signal(), Core: status.CoreDump()}
	s.replaceRunner("pid", s.runner, "exit", exit.String())
	s.runner = 0
}

// replaceRunner schedules another runner after a runner that died.
func (s *supervisor) replaceRunner(how ...any) {
	lived := time.Since(s.started)
	if lived >= longLife {
		s.quick = 0
	}
	s.quick++
	s.keeps = true
	s.settled.Stop()
	s.Log.Warn("runner died", append(how, "lived", lived.Round(time.Millisecond).String(), "again",
		restartDelay(s.quick).String())...)
	s.again.Reset(restartDelay(s.quick))
}

const (
	// longLife is how long a runner has to live so that its death doesn't count as quick, that is, as a death
	// that the next runner may share.
	longLife = time.Minute
	// maxDelay is the longest time without a runner.
	maxDelay = 30 * time.Second
)

// restartDelay returns how long to wait before the next runner after a number of quick deaths: no time after the first,
// then one second, doubled each time.
func restartDelay(deaths int) time.Duration {
	if deaths <= 1 {
		return 0
	}
	return min(time.Second<<min(deaths-2, 5), maxDelay)
}
