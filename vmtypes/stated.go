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

// A statement links a device to the configuration: a port to the role of its socket, or a drive to its index in
// vm.drives. The VM type provides it, because only VM types know QEMU's options.
type statement struct {
	device string
	role   string // the role of a socket; empty for a drive
	drive  int
	origin plan.Origin
}

// readStatements reads ports = {role: device} and drives = {device: index}.
func readStatements(thread *starlark.Thread, ports, drives *starlark.Dict) ([]statement, error) {
	var list []statement
	for role, device := range dictEntries(ports) {
		list = append(list, statement{device: device, role: role})
	}
	if drives != nil {
		for k, v := range drives.Entries() {
			device, ok := starlark.AsString(k)
			if !ok {
				return nil, fmt.Errorf("part: drives: a name must be the id of a device as a string, not %s", withArticle(k))
			}
			s := statement{device: device}
			if err := starlark.AsInt(v, &s.drive); err != nil {
				return nil, fmt.Errorf("part: drives[%q] must be an index into vm.drives, not %s", device,
					withArticle(v))
			}
			list = append(list, s)
		}
	}
	if len(list) > 0 {
		at := originOf(thread)
		for i := range list {
			list[i].origin = at
		}
	}
	return list, nil
}

// completePlan adds the ports and drives of the machine to a checked plan, for the runner. It takes them from the VM
// type's statements or, without statements, from its options: pinned types of earlier versions have no statements. It
// returns an error for each wrong statement.
func completePlan(p *plan.Plan, stated []statement, spec vmspec.Spec) []plan.Fault {
	m := newMachine(p)
	var faults []plan.Fault
	m.nameTPMHelper()
	for i := range p.Sockets {
		p.Sockets[i].Port = m.portID(p.Sockets[i].Path)
	}
	p.Drives = m.findDrives()
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

// machine contains a plan while its options are analyzed.
type machine struct {
	plan *plan.Plan
	// args are QEMU's options, split into properties.
	args []plan.Option
	// made contains the options by flag and id.
	made map[string]*plan.Option
	// named maps the names of devices and nodes to indexes of the plan's drives.
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

// nameTPMHelper assigns the TPM role to the helper at the other end of the TPM's socket, unless a helper already has
// this role.
func (m *machine) nameTPMHelper() {
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

// portID returns the id of the virtio serial port that is connected to the socket at path, or "".
func (m *machine) portID(path string) string {
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

// findDrives returns the drives that the options create: first the drives of devices, in their order, followed by the
// nodes that no other node uses.
func (m *machine) findDrives() []plan.Drive {
	var list []plan.Drive
	add := func(device, node string) {
		d := plan.Drive{Index: plan.NotInConfiguration, Device: device}
		m.followNode(&d, node)
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

// nodeBelow returns the node below a node, or "".
func nodeBelow(o *plan.Option) string {
	if o.Flag != "-blockdev" {
		return "" // in this option, file is the name of a file
	}
	for _, key := range []string{"file", "image"} {
		if name, ok := o.Get(key); ok {
			return name
		}
	}
	return ""
}

// followNode adds a node and all nodes below it to a drive, down to the file.
func (m *machine) followNode(d *plan.Drive, node string) {
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

// statePort sets the port of a socket, or returns an error message.
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
		return fmt.Sprintf("ports: there is no device with the id %q%s", s.device, didYouMean(s.device, m.allIDs()))
	}
	return ""
}

// stateDrive sets the index in vm.drives of a device's or node's drive, or returns an error message.
func (m *machine) stateDrive(s statement, count int) string {
	if s.drive < 0 || s.drive >= count {
		return fmt.Sprintf("drives: %s is vm.drives[%d], but vm.drives has %d items", s.device, s.drive, count)
	}
	d := m.findDrive(s.device)
	if d == nil {
		return fmt.Sprintf("drives: there is no device or block node %q%s", s.device, didYouMean(s.device, m.allIDs()))
	}
	d.Index = s.drive
	return ""
}

// findDrive returns the drive of a device or a node, or nil if there is no such device or node. It adds a drive for a
// device without a node, such as an empty CD drive.
func (m *machine) findDrive(name string) *plan.Drive {
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

// allIDs returns the ids of devices and the names of block nodes.
func (m *machine) allIDs() []string {
	var list []string
	for i := range m.args {
		if o := &m.args[i]; o.ID() != "" && (o.Flag == "-device" || isNode(o)) {
			list = append(list, o.ID())
		}
	}
	return list
}

// inConfiguration finds the index in vm.drives for drives without a statement. It uses the rules, or otherwise
// the files. It clears the file of a medium, because the medium can change later.
func (m *machine) inConfiguration(stated map[string]bool, drives []vmspec.Drive) {
	for _, r := range m.plan.Rules {
		index := plan.NotInConfiguration
		switch r := r.(type) {
		case plan.Disk:
			index = r.Drive
		case plan.Limits:
			index = r.Drive
		case plan.Medium:
			index = r.Drive
		}
		if index == plan.NotInConfiguration || stated[plan.Device(r)] {
			continue
		}
		if d := m.findDrive(plan.Device(r)); d != nil {
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
		if r, ok := r.(plan.Medium); ok && m.findDrive(r.Device) != nil {
			m.findDrive(r.Device).File = ""
		}
	}
}
