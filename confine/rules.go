package confine

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Access is what may be done with a path.
type Access int

// What may be done. The zero Access allows nothing but to connect to a socket.
const (
	Read    Access = 1 << iota // read and execute; of a folder, all in it
	Sockets                    // make sockets in a folder
	// Write includes Read; in a folder, files and folders can be made and removed.
	Write
)

// A Path is a file or a folder that may be used. One that doesn't exist is left out.
type Path struct {
	Name   string
	Access Access
	// Make says that an empty file is made if there is none.
	Make bool
}

// Ports are TCP ports. The zero Ports are none.
type Ports struct {
	Any bool
	// Free are those that the kernel chooses (ip_local_port_range of ip(7)).
	Free bool
	List []uint16
}

// With returns the ports and another one; 0 is any.
func (p Ports) With(port uint16) Ports {
	p.Any = p.Any || port == 0
	if port != 0 {
		p.List = append(slices.Clip(p.List), port)
	}
	return p
}

// Rules are what a process may use.
type Rules struct {
	Paths []Path
	// Listen and Connect are the ports on which it may listen, and to which it may
	// connect.
	Listen, Connect Ports
	// Capabilities are those that it keeps, if there are any: "ipc_lock".
	Capabilities []string
}

// Held is what the kernel holds a process to.
type Held struct {
	// Landlock is the version of the kernel's interface; 0: there is none.
	Landlock int `json:"landlock,omitempty"`
	// Root says that the process has a root folder of its own.
	Root bool `json:"root,omitempty"`
	// Lacks says in words what does not hold, and why.
	Lacks []string `json:"lacks,omitempty"`
}

func (h *Held) lack(format string, args ...any) {
	h.Lacks = append(h.Lacks, fmt.Sprintf(format, args...))
}

// Hold puts the calling thread under the rules, for good. The thread must be locked,
// and end soon.
func (r *Rules) Hold() (held Held, err error) {
	if err := r.makeFiles(); err != nil {
		return held, err
	}
	alone := ownRoot(r.Paths)
	if held.Root = alone == nil; !held.Root {
		held.lack("no root folder of its own: %v", alone)
	}
	if err := keepOnly(r.Capabilities); err != nil {
		return held, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return held, fmt.Errorf("forbid new privileges: %w", os.NewSyscallError("prctl", err))
	}
	return held, r.landlock(&held)
}

// makeFiles makes what is to be written, and can't be made by the process: that would
// take leave for the whole folder. An error is left to the process to report.
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
