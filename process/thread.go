package process

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"vmop/loopback"
)

// startProcess starts the program on its CPUs and under the rules. A process is held to
// what the thread that makes it is held to: so a thread of its own takes CPUs and rules,
// makes the process, and ends.
func (p *Process) startProcess(s Spec, attributes *os.ProcAttr) (err error) {
	start := func() {
		p.proc, err = os.StartProcess(s.Path, append([]string{s.Path}, s.Args...), attributes)
	}
	if s.Rules == nil && len(s.CPUs) == 0 {
		start()
		return err
	}
	var calls *os.File
	inLostThread(func() {
		if len(s.CPUs) > 0 {
			p.misplaced = place(0, s.CPUs)
		}
		if s.Rules != nil {
			if p.held, err = s.Rules.Hold(); err != nil {
				err = fmt.Errorf("confine it: %w", err)
				return
			}
			if s.Rules.NoLoopback {
				var open error
				if calls, open = loopback.Deny(); open != nil {
					p.held.Loopback = open.Error()
				}
			}
		}
		start()
	})
	if calls == nil {
		return err
	}
	if err != nil {
		return errors.Join(err, calls.Close())
	}
	open := loopback.Guard(calls, p.proc.Pid)
	if p.held.NoLoopback = open == nil; open != nil {
		p.held.Loopback = open.Error()
	}
	return nil
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
