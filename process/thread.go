package process

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"vmop/confine"
)

// startProcess starts the program under the rules. A process is held to what the thread
// that makes it is held to: so a thread of its own takes the rules, makes the process,
// and ends.
func (s Spec) startProcess(attributes *os.ProcAttr) (started *os.Process, held confine.Held, err error) {
	start := func() (*os.Process, error) {
		return os.StartProcess(s.Path, append([]string{s.Path}, s.Args...), attributes)
	}
	if s.Rules == nil {
		started, err = start()
		return started, held, err
	}
	inLostThread(func() {
		if held, err = s.Rules.Hold(); err != nil {
			err = fmt.Errorf("confine it: %w", err)
			return
		}
		started, err = start()
	})
	return started, held, err
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
