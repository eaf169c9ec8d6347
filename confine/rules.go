package confine

import "slices"

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
	// NoLoopback denies loopback addresses to connections of QEMU's guest. Hold has the kernel ask about each
	// connection, and the caller has the questions answered (loopback.Guard).
	NoLoopback bool
	// NoInternal denies internal addresses to what QEMU reads itself, and NoOwnLoopback loopback addresses to QEMU's
	// libraries. Both need NoLoopback.
	NoInternal, NoOwnLoopback bool
	// NoAttributes denies changes of the mode, owner, dates and attributes of files, and watches of folders, to a
	// process without its own root folder. In its own root folder it sees only files of the rules.
	NoAttributes bool
	// Capabilities are those that it keeps, if there are any: "ipc_lock".
	Capabilities []string
}

// Held is what the kernel holds a process to.
type Held struct {
	// Landlock is the version of the kernel's interface; 0: there is none.
	Landlock int `json:"landlock,omitempty"`
	// Root says that the process has a root folder of its own.
	Root bool `json:"root,omitempty"`
	// NoLoopback says that connections of the guest reach no loopback address.
	NoLoopback bool `json:"noLoopback,omitempty"`
	// Loopback says why connections of the guest reach loopback addresses though the rules deny it; empty if
	// they don't.
	Loopback string `json:"loopback,omitempty"`
	// Lacks says in words what does not hold, and why.
	Lacks []string `json:"lacks,omitempty"`
}
