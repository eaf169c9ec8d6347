package confine

import "slices"

// Access is the permitted access to a path.
type Access int

// Kinds of access. The zero Access only allows connecting to a socket.
const (
	Read    Access = 1 << iota // read and execute; in a folder, all of its contents
	Sockets                    // create sockets in a folder
	// Write includes Read; in a folder, it also permits creating and removing files and folders.
	Write
)

// A Path is a file or folder that the process may use. It is left out if it doesn't exist.
type Path struct {
	Name   string
	Access Access
	// Make creates an empty file if the path doesn't exist.
	Make bool
}

// Ports is a set of TCP ports. The zero value is empty.
type Ports struct {
	Any bool
	// Free includes the ports that the kernel chooses (ip_local_port_range of ip(7)).
	Free bool
	List []uint16
}

// With returns the ports with an additional port; 0 means any port.
func (p Ports) With(port uint16) Ports {
	p.Any = p.Any || port == 0
	if port != 0 {
		p.List = append(slices.Clip(p.List), port)
	}
	return p
}

// Rules describe what a process may use.
type Rules struct {
	Paths []Path
	// Listen and Connect are the ports that the process may listen on and connect to.
	Listen, Connect Ports
	// NoLoopback denies loopback addresses to connections of QEMU's guest. Hold makes the kernel ask about each
	// connection, and the caller must answer the questions (loopback.Guard).
	NoLoopback bool
	// NoInternal denies internal addresses to connections that QEMU opens itself to read data. NoOwnLoopback denies
	// loopback addresses to QEMU's libraries. Both need NoLoopback.
	NoInternal, NoOwnLoopback bool
	// NoAttributes applies to a process without its own root folder. It denies changing the mode, owner, dates and
	// attributes of files, and watching folders. In its own root folder a process sees only files of the rules.
	NoAttributes bool
	// Capabilities lists the capabilities to keep if the process has them, such as "ipc_lock".
	Capabilities []string
}

// Held describes the restrictions that the kernel enforces on a process.
type Held struct {
	// Landlock is the version of the kernel's interface; 0 if it is unavailable.
	Landlock int `json:"landlock,omitempty"`
	// Root reports whether the process has its own root folder.
	Root bool `json:"root,omitempty"`
	// NoLoopback reports whether loopback addresses are denied to the guest's connections.
	NoLoopback bool `json:"noLoopback,omitempty"`
	// Loopback is the reason why the guest's connections reach loopback addresses although the rules deny that;
	// otherwise it is empty.
	Loopback string `json:"loopback,omitempty"`
	// Lacks describes the restrictions that don't apply, with the reasons.
	Lacks []string `json:"lacks,omitempty"`
}
