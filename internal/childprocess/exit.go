package childprocess

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit describes how a process ended. The zero Exit is success.
type Exit struct {
	Code   int            // exit status 0 to 255; -1 if it was killed by a signal or the status is unknown
	Signal syscall.Signal // the signal that killed it, otherwise 0
	Core   bool           // whether it left a core dump
}

// Unknown reports whether the exit status is unknown: the process wasn't a child, and the kernel doesn't report it.
func (e Exit) Unknown() bool { return e.Code < 0 && e.Signal == 0 }

// String returns "exit status 1" or "killed by signal 9 (SIGKILL)".
func (e Exit) String() string {
	switch {
	case e.Signal != 0 && e.Core:
		return fmt.Sprintf("killed by signal %d (%s), core dumped", int(e.Signal), signalName(e.Signal))
	case e.Signal != 0:
		return fmt.Sprintf("killed by signal %d (%s)", int(e.Signal), signalName(e.Signal))
	case e.Unknown():
		return "exit status unknown"
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(sig))
}

// exitOf converts a wait status.
func exitOf(status syscall.WaitStatus) Exit {
	if !status.Signaled() {
		return Exit{Code: status.ExitStatus()}
	}
	return Exit{Code: -1, Signal: status.Signal(), Core: status.CoreDump()}
}
