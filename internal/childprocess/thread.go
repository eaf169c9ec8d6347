package childprocess

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"vmop/internal/confine"
	"vmop/internal/loopback"
)

// startProcess starts the program on its CPUs and under the rules. A process inherits the restrictions of the thread
// that creates it, so a separate thread applies CPUs and rules to itself, creates the process, and ends.
func (p *Process) startProcess(s Spec, attributes *os.ProcAttr) (err error) {
	if s.Rules == nil && len(s.CPUs) == 0 {
		p.proc, err = os.StartProcess(s.Path, s.argumentsWithName(), attributes)
		return err
	}
	var calls *os.File // the process's system calls that the kernel asks about
	inLostThread(func() {
		if len(s.CPUs) > 0 {
			p.misplaced = placeThread(0, s.CPUs)
		}
		if s.Rules != nil && s.Rules.CanStage() {
			staged := *attributes
			staged.Dir = ""
			stage := confine.Stage{Rules: *s.Rules, Path: s.Path, Args: s.argumentsWithName(), Dir: s.Dir}
			p.proc, p.held, calls, err = stage.Start(staged)
			if !errors.Is(err, confine.ErrNoNamespace) {
				return
			}
		}
		if s.Rules != nil {
			if p.held, calls, err = s.Rules.Hold(loopback.Deny); err != nil {
				err = fmt.Errorf("confine it: %w", err)
				return
			}
		}
		p.proc, err = os.StartProcess(s.Path, s.argumentsWithName(), attributes)
	})
	switch {
	case calls == nil:
		return err
	case err != nil:
		return errors.Join(err, calls.Close())
	}
	limits := loopback.Limits{Internal: s.Rules.NoInternal, Loopback: s.Rules.NoOwnLoopback}
	open := loopback.Guard(calls, p.proc.Pid, limits)
	if p.held.NoLoopback = open == nil; open != nil {
		p.held.Loopback = open.Error()
	}
	return nil
}

// argumentsWithName returns the arguments with the program's own name.
func (s Spec) argumentsWithName() []string { return append([]string{s.Path}, s.Args...) }

// inLostThread calls f in a thread that ends after the call. It avoids the first thread of the program, which can't
// end and shows what the program may do.
func inLostThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return // with its thread
		}
		inLostThread(f)
		runtime.UnlockOSThread()
	}()
	<-done
}
