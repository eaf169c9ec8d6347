package vmtypes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A statement is what a VM type says of a device for the runner, which doesn't
// know QEMU's options: of ports, which socket's role it serves, of drives, its
// place in vm.drives.
type statement struct {
	device string
	role   string // of a socket; empty for a drive
	drive  int
	origin plan.Origin
}

// statements reads ports = {role: device} and drives = {device: index}.
func statements(thread *starlark.Thread, ports, drives *starlark.Dict) ([]statement, error) {
	var list []statement
	for role, device := range dictEntries(ports) {
		list = append(list, statement{device: device, role: role})
	}
	if drives != nil {
		for k, v := range drives.Entries() {
			device, ok := starlark.AsString(k)
			if !ok {
				return nil, fmt.Errorf("part: drives: a name is %s, want the id of a device as a string", article(k))
			}
			s := statement{device: device}
			if err := starlark.AsInt(v, &s.drive); err != nil {
				return nil, fmt.Errorf("part: drives[%q] is %s, want an index into vm.drives", device, article(v))
			}
			list = append(list, s)
		}
	}
	if len(list) > 0 {
		at := origin(thread)
		for i := range list {
			list[i].origin = at
		}
	}
	return list, nil
}

// complete adds to a checked plan what the runner has to know of the machine: what
// the VM type has stated and, where it has stated nothing, what its options
// show. Types of earlier versions, which VMs have kept, could not state
// anything. What is stated and cannot be is returned.
func complete(p *plan.Plan, stated []statement, spec vmspec.Spec) []plan.Fault {
	m := newMachine(p)
	var faults []plan.Fault
	m.tpm()
	for i := range p.Sockets {
		p.Sockets[i].Port = m.port(p.Sockets[i].Path)
	}
	p.Drives = m.drives()
	known := map[string]bool{}
	for _, s := range stated {
		message := ""
		if s.role != "" {
			message = m.statePort(s)
		} else {
			message = m.stateDrive(s, len(spec.Drives))
			known[s.device] = true
		}
		if message != "" {
			faults = append(faults, plan.Fault{Message: message, Origin: s.origin})
		}
	}
	m.inConfiguration(known, spec.Drives)
	slices.SortStableFunc(p.Drives, func(a, b plan.Drive) int { return cmp.Compare(uint(a.Index), uint(b.Index)) })
	return faults
}

// machine is a plan whose options are being read.
type machine struct {
	plan *plan.Plan
	// args are QEMU's options, with their properties one by one.
	args []plan.Option
	// made are the options by flag and id.
	made map[string]*plan.Option
	// named are the places of the plan's drives by the names of their devices and
	// nodes.
	named map[string]int
}

func newMachine(p *plan.Plan) *machine {
	m := &machine{
		plan: p, args: make([]plan.Option, len(p.QEMU.Args)),
		made: make(map[string]*plan.Option, len(p.QEMU.Args)), named: map[string]int{},
	}
	for i, o := range p.QEMU.Args {
		m.args[i] = o.Structured()
		if id := m.args[i].ID(); id != "" {
			m.made[o.Flag+" "+id] = &m.args[i]
		}
	}
	return m
}

// tpm gives the helper at the other end of the TPM's socket its role, unless a
// helper has it.
func (m *machine) tpm() {
	if m.plan.Helper(plan.RoleTPM) != "" {
		return
	}
	path := ""
	for _, o := range m.args {
		if id, ok := o.Get("chardev"); ok && o.Flag == "-tpmdev" && m.made["-chardev "+id] != nil {
			path, _ = m.made["-chardev "+id].Get("path")
		}
	}
	if path == "" {
		return
	}
	for i := range m.plan.Helpers {
		h := &m.plan.Helpers[i]
		holds := func(l plan.Listener) bool { return l.Path == path && slices.Contains(h.Descriptors(), l.Name) }
		if h.Ready == path || slices.ContainsFunc(m.plan.Listeners, holds) {
			h.Role = plan.RoleTPM
			return
		}
	}
}

// port returns the id of the virtio serial port whose other end is the socket at
// path, or "".
func (m *machine) port(path string) string {
	chardev := ""
	for _, o := range m.args {
		if at, ok := o.Get("path"); ok && o.Flag == "-chardev" && at == path {
			chardev = o.ID()
		}
	}
	for _, o := range m.args {
		if of, _ := o.Get("chardev"); chardev != "" && of == chardev && o.Flag == "-device" &&
			(o.Value == "virtserialport" || o.Value == "virtconsole") {
			return o.ID()
		}
	}
	return ""
}

// drives returns the drives that options make: those of devices, in their order,
// then the nodes that nothing else is made of.
func (m *machine) drives() []plan.Drive {
	var list []plan.Drive
	add := func(device, node string) {
		d := plan.Drive{Index: plan.NotInConfiguration, Device: device}
		m.follow(&d, node)
		for _, name := range append([]string{device}, d.Nodes...) {
			if _, ok := m.named[name]; !ok && name != "" {
				m.named[name] = len(list)
			}
		}
		list = append(list, d)
	}
	for _, o := range m.args {
		if node, _ := o.Get("drive"); node != "" && o.Flag == "-device" {
			add(o.ID(), node)
		}
	}
	below := map[string]bool{}
	for _, o := range m.args {
		below[nodeBelow(&o)] = true
		backing, _ := o.Get("backing")
		below[backing] = true
	}
	for _, o := range m.args {
		id := o.ID()
		if _, ofDevice := m.named[id]; isNode(&o) && id != "" && !ofDevice && !below[id] {
			add("", id)
		}
	}
	return list
}

func isNode(o *plan.Option) bool { return o.Flag == "-blockdev" || o.Flag == "-drive" }

// nodeBelow returns the node that a node is made of, or "".
func nodeBelow(o *plan.Option) string {
	if o.Flag != "-blockdev" {
		return "" // file is a file there
	}
	for _, key := range []string{"file", "image"} {
		if name, ok := o.Get(key); ok {
			return name
		}
	}
	return ""
}

// follow adds a node and those below it to a drive, down to the file.
func (m *machine) follow(d *plan.Drive, node string) {
	for node != "" && !slices.Contains(d.Nodes, node) {
		d.Nodes = append(d.Nodes, node)
		o := m.made["-blockdev "+node]
		if o == nil {
			o = m.made["-drive "+node]
		}
		if o == nil {
			return
		}
		for _, p := range o.Properties {
			if p.Key == "filename" || strings.HasSuffix(p.Key, ".filename") || p.Key == "file" && o.Flag == "-drive" {
				d.File = p.Value
				return
			}
		}
		node = nodeBelow(o)
	}
}

// statePort notes which port a socket leads to, or returns what is wrong.
func (m *machine) statePort(s statement) string {
	var roles []string
	for i := range m.plan.Sockets {
		socket := &m.plan.Sockets[i]
		if socket.Role == s.role {
			socket.Port = s.device
		}
		roles = append(roles, socket.Role)
	}
	switch {
	case !slices.Contains(roles, s.role):
		return fmt.Sprintf("ports: no socket has the role %q%s", s.role, didYouMean(s.role, roles))
	case m.made["-device "+s.device] == nil:
		return fmt.Sprintf("ports: there is no device with the id %q%s", s.device, didYouMean(s.device, m.ids()))
	}
	return ""
}

// stateDrive notes which of vm.drives a device or a node is, or returns what is
// wrong.
func (m *machine) stateDrive(s statement, count int) string {
	if s.drive < 0 || s.drive >= count {
		return fmt.Sprintf("drives: %s is vm.drives[%d], but vm.drives has %d items", s.device, s.drive, count)
	}
	d := m.drive(s.device)
	if d == nil {
		return fmt.Sprintf("drives: there is no device or block node %q%s", s.device, didYouMean(s.device, m.ids()))
	}
	d.Index = s.drive
	return ""
}

// drive returns the drive of a device or a node; one of a device that holds
// nothing yet, as an empty CD drive, is added. It is nil if there is neither.
func (m *machine) drive(name string) *plan.Drive {
	i, ok := m.named[name]
	if !ok {
		if m.made["-device "+name] == nil {
			return nil
		}
		i, m.named[name] = len(m.plan.Drives), len(m.plan.Drives)
		m.plan.Drives = append(m.plan.Drives, plan.Drive{Index: plan.NotInConfiguration, Device: name})
	}
	return &m.plan.Drives[i]
}

// ids returns the ids of devices and the names of block nodes.
func (m *machine) ids() []string {
	var list []string
	for i := range m.args {
		if o := &m.args[i]; o.ID() != "" && (o.Flag == "-device" || isNode(o)) {
			list = append(list, o.ID())
		}
	}
	return list
}

// inConfiguration finds drives of which nothing is stated in vm.drives: by what
// may change while the VM runs, or else by their files. The file of a medium is
// not kept: it may be another by the time that it is asked for.
func (m *machine) inConfiguration(stated map[string]bool, drives []vmspec.Drive) {
	for _, r := range m.plan.Rules {
		index := plan.NotInConfiguration
		switch r := r.(type) {
		case plan.Disk:
			index = r.Drive
		case plan.Medium:
			index = r.Drive
		}
		if index == plan.NotInConfiguration || stated[plan.Device(r)] {
			continue
		}
		if d := m.drive(plan.Device(r)); d != nil {
			d.Index = index
		}
	}
	for i := range m.plan.Drives {
		d := &m.plan.Drives[i]
		if d.Index != plan.NotInConfiguration || d.File == "" {
			continue
		}
		d.Index = slices.IndexFunc(drives, func(x vmspec.Drive) bool {
			return x.File == d.File || x.Device == d.File || x.Resource == d.File
		})
	}
	for _, r := range m.plan.Rules {
		if r, ok := r.(plan.Medium); ok && m.drive(r.Device) != nil {
			m.drive(r.Device).File = ""
		}
	}
}
