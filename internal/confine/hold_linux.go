package confine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func (h *Held) noteLack(format string, args ...any) {
	h.Lacks = append(h.Lacks, fmt.Sprintf(format, args...))
}

// Hold applies the rules to the calling thread, permanently. The thread must be locked and end soon. Under rules
// with NoLoopback, Hold calls deny and returns its file.
func (r *Rules) Hold(deny Deny) (held Held, calls *os.File, err error) {
	if err := r.makeFiles(); err != nil {
		return held, nil, err
	}
	alone := ownRoot(r.Paths)
	held.Root = alone == nil
	if err := keepOnly(r.Capabilities); err != nil {
		return held, nil, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return held, nil, fmt.Errorf("forbid new privileges: %w", os.NewSyscallError("prctl", err))
	}
	if !held.Root {
		r.withoutRoot(alone, &held)
	}
	if err := r.restrictThread(&held); err != nil {
		return held, nil, err
	}
	if r.NoLoopback {
		if calls, err = deny(); err != nil {
			held.Loopback = err.Error()
		}
	}
	return held, calls, nil
}

// withoutRoot handles a thread that has no separate root folder, for the reason alone. It denies what a system call
// filter can deny, and records the rest.
func (r *Rules) withoutRoot(alone error, held *Held) {
	reaches := "it can connect to unix sockets of the same user"
	if !r.NoAttributes {
		reaches += ", change the mode, owner and dates of that user's files, and watch folders"
	} else if err := denyAttributes(); err != nil {
		reaches += fmt.Sprintf(", change the mode, owner and dates of that user's files, and watch folders (%v)", err)
	}
	held.noteLack("no separate root folder (%v): %s%s", alone, reaches, adviceFor(kernelFiles))
}

// A Deny makes the kernel send questions to a file: one for each connection of the processes that the calling thread
// starts. See loopback.Deny.
type Deny func() (*os.File, error)

// makeFiles creates files that the process will write but can't create, because that would require rights to the
// whole folder. It leaves errors to the process to report.
func (r *Rules) makeFiles() error {
	for _, p := range r.Paths {
		if !p.Make {
			continue
		}
		f, err := os.OpenFile(p.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			continue
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
