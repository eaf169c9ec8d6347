package process

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// startProcess starts the program without the capabilities to drop. A process has
// those of the thread that makes it, and can get more by executing a program only if
// nothing forbids it (capabilities(7), PR_SET_NO_NEW_PRIVS): so a thread of its own
// gives them up, makes the process, and ends.
func (s Spec) startProcess(attributes *os.ProcAttr) (*os.Process, error) {
	start := func() (*os.Process, error) {
		return os.StartProcess(s.Path, append([]string{s.Path}, s.Args...), attributes)
	}
	if len(s.Drop) == 0 {
		return start()
	}
	var started *os.Process
	var err error
	inLostThread(func() {
		if err = drop(s.Drop); err == nil {
			started, err = start()
		}
	})
	return started, err
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

// drop gives capabilities of the calling thread up, for good. A thread that has none of
// them is left as it is.
func drop(capabilities []int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	has := false
	for _, c := range capabilities {
		set, bit := &sets[c/32], uint32(1)<<(c%32)
		has = has || set.Permitted&bit != 0
		set.Effective &^= bit
		set.Permitted &^= bit
		set.Inheritable &^= bit
	}
	if !has {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", os.NewSyscallError("prctl", err))
	}
	return os.NewSyscallError("capset", unix.Capset(&header, &sets[0]))
}
