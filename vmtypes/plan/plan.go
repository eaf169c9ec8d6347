package plan

import (
	"path"
	"slices"
	"strings"
)

// A Plan contains everything that is needed to run one VM.
type Plan struct {
	// Type is the name of the VM type that computed the plan.
	Type string `json:"type"`
	// QEMU is QEMU's process.
	QEMU Process `json:"qemu"`
	// Helpers are processes that run next to QEMU and start before it.
	Helpers []Process `json:"helpers,omitempty"`
	// Files are created in the data directory before any process starts.
	Files []CopyOnce `json:"files,omitempty"`
	// Taps are the network interfaces to create on the host.
	Taps []Tap `json:"taps,omitempty"`
	// Listeners are listening unix sockets that the runner creates and passes on.
	Listeners []Listener `json:"listeners,omitempty"`
	// Sockets are QEMU's listening sockets, for connections of the runner.
	Sockets []Socket `json:"sockets,omitempty"`
	// Drives explain QEMU's names of drives.
	Drives []Drive `json:"drives,omitempty"`
	// Rules define what may change while the VM is running.
	Rules Rules `json:"rules,omitempty"`
	// RuleOrigins are the origins of Rules, in the same order. They may be missing.
	RuleOrigins []Origin `json:"ruleOrigins,omitempty"`
	// Warnings are about options of the configuration that work, but should be changed.
	Warnings []Warning `json:"warnings,omitempty"`
	// SecretFiles are files with secrets that the configuration names. The plan must not contain their content.
	SecretFiles []SecretFile `json:"secretFiles,omitempty"`
}

// A Warning is about a field of the configuration.
type Warning struct {
	// Path is the field, such as "vm.options.color".
	Path    string `json:"path"`
	Message string `json:"message"`
}

// A SecretFile is a file with a secret.
type SecretFile struct {
	// Path is the field of the configuration that names the file.
	Path string `json:"path"`
	// File is the absolute path of the file.
	File string `json:"file"`
}

// RuleOrigin returns the origin of the rule with an index in Rules; empty if it is unknown.
func (p *Plan) RuleOrigin(i int) Origin {
	if i >= len(p.RuleOrigins) {
		return nil
	}
	return p.RuleOrigins[i]
}

// GuestArchitecture returns the architecture of the guest in QEMU's spelling, such as x86_64 and aarch64. It is
// derived from the name of QEMU's program; "" if the name has another form.
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
	// Args are the arguments; a plain word is an Option with only a flag.
	Args []Option `json:"args"`
	// Env is added to the environment, in order.
	Env []Variable `json:"env,omitempty"`
	// Dir is the working directory; empty means the runner's.
	Dir string `json:"dir,omitempty"`
	// Ready is a path that exists when the process can be used. If it is empty, the process can be used
	// immediately. QEMU starts when all helpers are ready.
	Ready string `json:"ready,omitempty"`
	// Role is the helper's role for the machine, RoleTPM or RoleNetwork. If it is empty, the runner treats the
	// helper like any process.
	Role string `json:"role,omitempty"`
	// CPUs are the CPUs of the host that the process may use; empty means all CPUs.
	CPUs []int `json:"cpus,omitempty"`
	// Access lists files that the process needs in addition to the files in its arguments.
	Access []Access `json:"access,omitempty"`
	// Exempt means that the process confines itself, in a way that would not work if the runner confined it.
	Exempt bool `json:"exempt,omitempty"`
}

// Access is the permission for a process to use a file, or all files in a folder.
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

// RoleTPM is the role of the helper that emulates the machine's TPM. Without this helper, the guest cannot be
// reset.
const RoleTPM = "tpm"

// RoleNetwork is the role of a helper behind a network card. It has a connection to a listening socket of QEMU. When
// the helper ends, the runner starts it again with a new connection. The helper shows that it is ready by installing a
// seccomp filter.
const RoleNetwork = "network"

// TPMFolder is the working folder of swtpm in the data directory.
const TPMFolder = "tpm"

// Roles returns the roles that a helper can have.
func Roles() []string { return []string{RoleTPM, RoleNetwork} }

// A Variable is one entry of an environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// CopyOnce is a file that is copied from a template if it is missing. After that, it belongs to the guest:
// firmware variables, for example.
type CopyOnce struct {
	// From is the template, To the guest's own copy.
	From string `json:"from"`
	To   string `json:"to"`
	// Kind describes the use of the copy. If the existing copy has another kind, it is kept under another name,
	// and a new copy is created.
	Kind string `json:"kind,omitempty"`
	// SameSize means that a copy is damaged if its size differs from the template's size. The VM refuses to start
	// with a damaged copy, and the copy stays unchanged.
	SameSize bool   `json:"sameSize,omitempty"`
	Origin   Origin `json:"origin,omitempty"`
}

// A Tap is a virtual network interface for QEMU, which receives its descriptor. It is attached to Bridge. If
// Subnet is set, it is instead part of a private network behind the addresses of the runner's network namespace.
type Tap struct {
	// Name is the name of the interface, at most 15 bytes, and of the descriptor.
	Name   string `json:"name"`
	Bridge string `json:"bridge,omitempty"`
	// Queues is the number of queues, each with a descriptor; 0 and 1 both mean one queue.
	Queues int `json:"queues,omitempty"`
	// Subnet is a CIDR, "10.0.2.0/24", or AutoSubnet. The guest receives an address over DHCP.
	Subnet string `json:"subnet,omitempty"`
	// Lease is the address that the runner assigns to the guest over DHCP (with Bridge). nil means that a server
	// on the bridge does that.
	Lease *Lease `json:"lease,omitempty"`
	// Filter restricts the guest to MAC and the address of Lease. For a tap without a lease, the runner sets
	// Filter if vm.network[].filter is set.
	Filter bool `json:"filter,omitempty"`
	// MAC is the guest's hardware address, for the DHCP server.
	MAC string `json:"mac,omitempty"`
	// Hostname is the name that the guest receives over DHCP.
	Hostname string `json:"hostname,omitempty"`
	// Forwards are ports of the host that are forwarded to the guest (with Subnet).
	Forwards []Forward `json:"forwards,omitempty"`
	// AllPorts forwards all ports to the guest (with Subnet). nil means that only the ports in Forwards are
	// forwarded.
	AllPorts *AllPorts `json:"allPorts,omitempty"`
	Origin   Origin    `json:"origin,omitempty"`
}

// Lease is the address of a guest on a bridge, with other settings that the guest receives with it.
type Lease struct {
	// Address is a CIDR, "10.66.10.14/24".
	Address     string   `json:"address"`
	Gateway     string   `json:"gateway,omitempty"`
	Nameservers []string `json:"nameservers,omitempty"`
	Search      []string `json:"search,omitempty"`
	Routes      []Route  `json:"routes,omitempty"`
}

// Route is a route to a subnet via a router.
type Route struct {
	To  string `json:"to"`
	Via string `json:"via"`
}

// AllPorts forwards all ports of the namespace's addresses to the guest.
type AllPorts struct {
	// Keep are the excluded ports, for TCP and UDP.
	Keep []int `json:"keep,omitempty"`
}

// AutoSubnet requests an unused private subnet.
const AutoSubnet = "auto"

// Forward forwards a port of the host to a port of the guest.
type Forward struct {
	Protocol string `json:"protocol"`
	Address  string `json:"address,omitempty"`
	Host     int    `json:"host"`
	Guest    int    `json:"guest"`
}

// A Listener is a listening unix socket. The runner creates it before it starts the process that serves it, so
// that clients can connect immediately.
type Listener struct {
	// Name is the name of the descriptor.
	Name string `json:"name"`
	// Path is the path of the socket, at most 107 bytes.
	Path   string `json:"path"`
	Origin Origin `json:"origin,omitempty"`
}

// Client returns the name of a descriptor for the client of a listener. The runner connects the descriptor to the
// listener.
func Client(listener string) string { return listener + "/client" }

// A Socket is a unix socket on which QEMU listens.
type Socket struct {
	// Role describes the other end: "guestAgent", "console", "vnc".
	Role string `json:"role"`
	Path string `json:"path"`
	// Port is the id of the guest's virtio serial port that is connected to the socket. QEMU uses this id to
	// report that a program has opened or closed the port. Port is empty if there is no such port, or if the port
	// has no id.
	Port string `json:"port,omitempty"`
}

// A Drive is a drive of the machine, with the names in QEMU's reports.
type Drive struct {
	// Index is the index in vm.drives, or NotInConfiguration if the VM type has added the drive.
	Index int `json:"index"`
	// Device is the id of the drive's device, or "".
	Device string `json:"device,omitempty"`
	// Nodes are the names of its nodes in QEMU's block layer, beginning with the node of the device. For a
	// -drive, it is the id.
	Nodes []string `json:"nodes,omitempty"`
	// File is the file or device on the host. It is empty if it is unknown, or if it can change while the VM is
	// running.
	File string `json:"file,omitempty"`
}

// NotInConfiguration is the Index of a drive outside vm.drives.
const NotInConfiguration = -1

// Socket returns the path of the socket for role, or "".
func (p *Plan) Socket(role string) string {
	s, _ := p.SocketOf(role)
	return s.Path
}

// SocketOf returns the socket for role, and whether it exists.
func (p *Plan) SocketOf(role string) (Socket, bool) {
	i := slices.IndexFunc(p.Sockets, func(s Socket) bool { return s.Role == role })
	if i < 0 {
		return Socket{}, false
	}
	return p.Sockets[i], true
}

// Processes returns the helpers and QEMU, in the order in which they start.
func (p *Plan) Processes() []Process {
	return append(append([]Process{}, p.Helpers...), p.QEMU)
}

// Drive returns the drive for the first known name in names. The names are ids of devices or names of nodes.
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

// MachineType returns the machine type for QEMU, an alias (q35) or a version (pc-q35-7.2). If it is empty, QEMU
// chooses the machine type.
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
