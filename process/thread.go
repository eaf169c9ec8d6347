package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"vmop/confine"
)

// startProcess starts the program on its CPUs and under the rules. A process is held to
// what the thread that makes it is held to: so a thread of its own takes CPUs and rules,
// makes the process, and ends.
func (p *Process) startProcess(s Spec, attributes *os.ProcAttr) (err error) {
	args := append([]string{s.Path}, s.Args...)
	start := func() { p.proc, err = os.StartProcess(s.Path, args, attributes) }
	if s.Rules == nil && len(s.CPUs) == 0 {
		start()
		return err
	}
	inLostThread(func() {
		if len(s.CPUs) > 0 {
			p.misplaced = place(0, s.CPUs)
		}
		if s.Rules != nil && s.Rules.CanStage() {
			staged := *attributes
			staged.Dir = ""
			p.proc, p.held, err = confine.Stage{Rules: *s.Rules, Path: s.Path, Args: args, Dir: s.Dir}.Start(staged)
			if !errors.Is(err, confine.ErrNoNamespace) {
				return
			}
		}
		if s.Rules != nil {
			if p.held, err = s.Rules.Hold(); err != nil {
				err = fmt.Errorf("confine it: %w", err)
				return
			}
		}
		start()
	})
	return err
}

// inLostThread calls f in a thread that ends thereafter. The first thread of a program
// can't end, and shows what the program may do: that is not it.
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
