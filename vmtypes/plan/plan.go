package plan

import (
	"path"
	"slices"
	"strings"
)

// A Plan is all it takes to run one VM.
type Plan struct {
	// Type is the name of the VM type that made the plan.
	Type string `json:"type"`
	// QEMU is the machine itself.
	QEMU Process `json:"qemu"`
	// Helpers are processes that run beside QEMU, started before it.
	Helpers []Process `json:"helpers,omitempty"`
	// Files are made in the data directory before anything starts.
	Files []CopyOnce `json:"files,omitempty"`
	// Taps are the network interfaces to make on the host.
	Taps []Tap `json:"taps,omitempty"`
	// Listeners are unix sockets that the runner listens on and hands over.
	Listeners []Listener `json:"listeners,omitempty"`
	// Sockets are those that QEMU listens on, for the runner to connect to.
	Sockets []Socket `json:"sockets,omitempty"`
	// Drives say what QEMU's names of drives stand for.
	Drives []Drive `json:"drives,omitempty"`
	// Rules say what may change while the VM runs.
	Rules Rules `json:"rules,omitempty"`
}

// GuestArchitecture returns the architecture of the guest as QEMU spells it, such as x86_64 and aarch64, by the name of
// QEMU's program; "" if that doesn't say it.
func (p *Plan) GuestArchitecture() string {
	architecture, is := strings.CutPrefix(path.Base(p.QEMU.Executable), "qemu-system-")
	if !is {
		return ""
	}
	return architecture
}

// A Process is a command of the plan.
type Process struct {
	// Name identifies the process in logs, "swtpm" for example.
	Name string `json:"name"`
	// Executable is an absolute path.
	Executable string `json:"executable"`
	// Args are the arguments; a plain word is an Option with nothing but a flag.
	Args []Option `json:"args"`
	// Env is added to the environment, in order.
	Env []Variable `json:"env,omitempty"`
	// Dir is the working directory; empty means the runner's.
	Dir string `json:"dir,omitempty"`
	// Ready is a path that exists once the process can be used; empty means at
	// once. QEMU starts when all helpers are ready.
	Ready string `json:"ready,omitempty"`
	// Role is what a helper is to the machine, RoleTPM or RoleNetwork; empty means
	// nothing that the runner treats specially.
	Role string `json:"role,omitempty"`
	// CPUs are those of the host that it may run on; none means all.
	CPUs []int `json:"cpus,omitempty"`
	// Access is what it needs of the host besides what its arguments show.
	Access []Access `json:"access,omitempty"`
	// Exempt says that the process confines itself, in a way that it couldn't if the
	// runner did.
	Exempt bool `json:"exempt,omitempty"`
}

// Access is leave for a process to use a file, or all files in a folder.
type Access struct {
	// Path is absolute.
	Path string `json:"path"`
	// Mode is AccessRead or AccessWrite, which includes reading.
	Mode   string `json:"mode"`
	Origin Origin `json:"origin,omitempty"`
}

// The modes of Access.
const (
	AccessRead  = "read"
	AccessWrite = "write"
)

// RoleTPM is the role of the helper that is the machine's TPM: without it the
// guest cannot be reset.
const RoleTPM = "tpm"

// RoleNetwork is the role of a helper that is behind a network card. It is connected
// with a socket on which QEMU listens, again whenever it has ended, and installs a seccomp
// filter when it is ready.
const RoleNetwork = "network"

// TPMFolder is the folder of the data directory in which swtpm works.
const TPMFolder = "tpm"

// Roles returns the roles that a helper can have.
func Roles() []string { return []string{RoleTPM, RoleNetwork} }

// A Variable is one entry of an environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// CopyOnce is a file that is copied from a template when it doesn't exist yet,
// and belongs to the guest from then on: firmware variables, for example.
type CopyOnce struct {
	// From is the template, To the guest's own copy.
	From string `json:"from"`
	To   string `json:"to"`
	// Kind is what the copy is good for. A copy of another kind is kept under
	// another name and made anew.
	Kind string `json:"kind,omitempty"`
	// SameSize says that a copy of another size than the template's is damaged:
	// the VM is not started with it, and it is left as it is.
	SameSize bool   `json:"sameSize,omitempty"`
	Origin   Origin `json:"origin,omitempty"`
}

// A Tap is a virtual network interface whose descriptor QEMU gets. It is
// attached to Bridge, or, if Subnet is set, put into a private network behind
// the addresses of the network namespace the runner is in.
type Tap struct {
	// Name of the interface, at most 15 bytes; also the descriptor's name.
	Name   string `json:"name"`
	Bridge string `json:"bridge,omitempty"`
	// Queues is how many it has, each with a descriptor; 0 and 1 are one.
	Queues int `json:"queues,omitempty"`
	// Subnet is a CIDR, "10.0.2.0/24", or AutoSubnet: the guest gets an address
	// by DHCP.
	Subnet string `json:"subnet,omitempty"`
	// Lease is what the runner gives the guest by DHCP (with Bridge); nil: a server on the
	// bridge does.
	Lease *Lease `json:"lease,omitempty"`
	// Filter keeps the guest to MAC and the address of Lease. The runner sets it for a tap without a lease if
	// vm.network[].filter is set.
	Filter bool `json:"filter,omitempty"`
	// MAC is the guest's hardware address, for the DHCP server.
	MAC string `json:"mac,omitempty"`
	// Hostname is offered to the guest by DHCP.
	Hostname string `json:"hostname,omitempty"`
	// Forwards are ports of the host that lead to the guest (with Subnet).
	Forwards []Forward `json:"forwards,omitempty"`
	// AllPorts hands all ports to the guest (with Subnet); nil: those of Forwards only.
	AllPorts *AllPorts `json:"allPorts,omitempty"`
	Origin   Origin    `json:"origin,omitempty"`
}

// Lease is the address of a guest on a bridge, and what else it learns with it.
type Lease struct {
	// Address is a CIDR, "10.66.10.14/24".
	Address     string   `json:"address"`
	Gateway     string   `json:"gateway,omitempty"`
	Nameservers []string `json:"nameservers,omitempty"`
	Search      []string `json:"search,omitempty"`
	Routes      []Route  `json:"routes,omitempty"`
}

// Route leads to a subnet by a router.
type Route struct {
	To  string `json:"to"`
	Via string `json:"via"`
}

// AllPorts hands all ports of the namespace's addresses to the guest.
type AllPorts struct {
	// Keep are the ports, of TCP and UDP, that stay the namespace's.
	Keep []int `json:"keep,omitempty"`
}

// AutoSubnet asks for a private subnet that is not in use.
const AutoSubnet = "auto"

// Forward leads a port of the host to a port of the guest.
type Forward struct {
	Protocol string `json:"protocol"`
	Address  string `json:"address,omitempty"`
	Host     int    `json:"host"`
	Guest    int    `json:"guest"`
}

// A Listener is a listening unix socket that the runner makes before the
// process starts that serves it, so that no client has to wait for it to appear.
type Listener struct {
	// Name of the descriptor.
	Name string `json:"name"`
	// Path of the socket, at most 107 bytes.
	Path   string `json:"path"`
	Origin Origin `json:"origin,omitempty"`
}

// Client returns the name of a descriptor that is connected with a listener, for the
// process that is its client. The runner makes the connection.
func Client(listener string) string { return listener + "/client" }

// A Socket is a unix socket on which QEMU listens.
type Socket struct {
	// Role says who is at the other end: "guestAgent", "console", "vnc".
	Role string `json:"role"`
	Path string `json:"path"`
	// Port is the id of the virtio serial port in the guest that the socket leads
	// to. QEMU reports under this id that a program has opened or closed the port.
	// Empty means that there is none, or none with an id.
	Port string `json:"port,omitempty"`
}

// A Drive is one of the machine's, with the names by which QEMU reports on it.
type Drive struct {
	// Index is the place in vm.drives; NotInConfiguration for a drive that the VM
	// type has added.
	Index int `json:"index"`
	// Device is the id of the drive's device, or "".
	Device string `json:"device,omitempty"`
	// Nodes are the names of its nodes in QEMU's block layer, the device's own
	// first; of a -drive the id.
	Nodes []string `json:"nodes,omitempty"`
	// File is the file or device of the host. It is empty if it is not known, or if
	// it can change while the VM runs.
	File string `json:"file,omitempty"`
}

// NotInConfiguration is the Index of a drive that isn't one of vm.drives.
const NotInConfiguration = -1

// Socket returns the path of the socket for role, or "" if there is none.
func (p *Plan) Socket(role string) string {
	s, _ := p.SocketOf(role)
	return s.Path
}

// SocketOf returns the socket for role, and whether there is one.
func (p *Plan) SocketOf(role string) (Socket, bool) {
	i := slices.IndexFunc(p.Sockets, func(s Socket) bool { return s.Role == role })
	if i < 0 {
		return Socket{}, false
	}
	return p.Sockets[i], true
}

// Processes returns the helpers and QEMU, in starting order.
func (p *Plan) Processes() []Process {
	return append(append([]Process{}, p.Helpers...), p.QEMU)
}

// Drive returns the drive that has one of these names, the ids of devices or the
// names of nodes; the first name that is known counts.
func (p *Plan) Drive(names ...string) (Drive, bool) {
	for _, name := range names {
		for _, d := range p.Drives {
			if name != "" && (d.Device == name || slices.Contains(d.Nodes, name)) {
				return d, true
			}
		}
	}
	return Drive{}, false
}

// Helper returns the name of the helper with a role, or "".
func (p *Plan) Helper(role string) string {
	for _, h := range p.Helpers {
		if h.Role == role {
			return h.Name
		}
	}
	return ""
}

// MachineType returns the machine type that QEMU is asked for, an alias (q35) or
// a version (pc-q35-7.2); empty means QEMU's own choice.
func (p *Plan) MachineType() string {
	found := p.Machine()
	if found == nil {
		return ""
	}
	m := found.Structured()
	if kind, ok := m.Get("type"); ok && m.Value == "" {
		return kind
	}
	return m.Value
}

// Machine returns QEMU's -machine option, or nil.
func (p *Plan) Machine() *Option {
	for i := range p.QEMU.Args {
		if p.QEMU.Args[i].Flag == "-machine" {
			return &p.QEMU.Args[i]
		}
	}
	return nil
}
