package plan

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
	// Rules say what may change while the VM runs.
	Rules Rules `json:"rules,omitempty"`
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
}

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
	// Subnet is a CIDR, "10.0.2.0/24", or AutoSubnet: the guest gets an address
	// by DHCP.
	Subnet string `json:"subnet,omitempty"`
	// MAC is the guest's hardware address, for the DHCP server.
	MAC string `json:"mac,omitempty"`
	// Hostname is offered to the guest by DHCP.
	Hostname string `json:"hostname,omitempty"`
	// Forwards are ports of the host that lead to the guest (with Subnet).
	Forwards []Forward `json:"forwards,omitempty"`
	Origin   Origin    `json:"origin,omitempty"`
}

// AutoSubnet asks for a private subnet that nobody uses yet.
const AutoSubnet = "auto"

// Forward leads a port of the host to a port of the guest.
type Forward struct {
	Protocol string `json:"protocol"`
	Address  string `json:"address,omitempty"`
	Host     int    `json:"host"`
	Guest    int    `json:"guest"`
}

// A Listener is a listening unix socket that the runner makes before the
// process starts that serves it, so that nobody has to wait for it to appear.
type Listener struct {
	// Name of the descriptor.
	Name string `json:"name"`
	// Path of the socket, at most 107 bytes.
	Path   string `json:"path"`
	Origin Origin `json:"origin,omitempty"`
}

// A Socket is a unix socket on which QEMU listens.
type Socket struct {
	// Role says who is at the other end: "guestAgent", "console", "vnc".
	Role string `json:"role"`
	Path string `json:"path"`
}

// Socket returns the path of the socket for role, or "" if there is none.
func (p *Plan) Socket(role string) string {
	for _, s := range p.Sockets {
		if s.Role == role {
			return s.Path
		}
	}
	return ""
}

// Processes returns the helpers and QEMU, in starting order.
func (p *Plan) Processes() []Process {
	return append(append([]Process{}, p.Helpers...), p.QEMU)
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
