package compare

import (
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A side is one of two plans, with indexes.
type side struct {
	plan *plan.Plan
	// made contains the options with an id, by flag and id.
	made map[string]*plan.Option
	// roles maps block nodes to their uses: "disk disk0", "firmware code".
	roles map[string]string
	// live contains the options, by flag and id, and their properties that a rule covers.
	live map[string]bool
	// orders contains the addresses that QEMU assigns by order.
	orders gives
}

func newSide(p *plan.Plan) *side {
	s := &side{plan: p, made: map[string]*plan.Option{}, roles: map[string]string{}, live: map[string]bool{}}
	for i := range p.QEMU.Args {
		if o := &p.QEMU.Args[i]; o.ID() != "" {
			s.made[o.Flag+" "+o.ID()] = o
		}
	}
	for i := range p.QEMU.Args {
		o := &p.QEMU.Args[i]
		switch o.Flag {
		case "-device":
			s.markNode(propertyValue(o, "drive"), diskRole+o.ID())
		case "-machine":
			s.markNode(propertyValue(o, "pflash0"), firmwareCode)
			s.markNode(propertyValue(o, "pflash1"), firmwareVariables)
		}
	}
	for _, r := range p.Rules {
		s.markCovered(r)
	}
	s.orders = givenOut(p.QEMU.Args, machineOf(p))
	return s
}

// Roles of block nodes; diskRole is followed by the id of the device.
const (
	diskRole          = "disk "
	firmwareCode      = "firmware code"
	firmwareVariables = "firmware variables"
)

// nodeOption returns the option that creates a block node, or nil.
func (s *side) nodeOption(id string) *plan.Option {
	if o := s.made["-blockdev "+id]; o != nil {
		return o
	}
	return s.made["-drive "+id]
}

// markNode records the role of a block node and of all nodes below it.
func (s *side) markNode(id, role string) {
	for range len(s.plan.QEMU.Args) { // nodes cannot be deeper
		o := s.nodeOption(id)
		if o == nil {
			return
		}
		s.roles[id] = role
		if id = propertyValue(o, "file"); id == "" {
			return
		}
	}
}

// markCovered records the options that a rule covers.
func (s *side) markCovered(r plan.Rule) {
	switch r := r.(type) {
	case plan.CPUs:
		s.live["-smp  cpus"] = true
	case plan.Memory:
		s.live["-device "+r.Device+" requested-size"] = true
	case plan.Medium:
		s.live["-device "+r.Device+" drive"] = true
		for id, role := range s.roles {
			if role == diskRole+r.Device {
				s.live["-drive "+id], s.live["-blockdev "+id] = true, true
			}
		}
		s.live["-drive "+r.Device+"-medium"] = true // of an empty drive
	case plan.Ports:
		s.live["-netdev "+r.Netdev+" hostfwd"] = true
	case plan.Balloon, plan.Disk, plan.Limits, plan.Disks, plan.NICs, plan.Link, plan.Password, plan.Affinity:
		// These rules cover none of QEMU's options.
	}
}

// describeContents describes the location and the format of a block node's data.
func (s *side) describeContents(id string) string {
	var parts []string
	for range len(s.plan.QEMU.Args) {
		o := s.nodeOption(id)
		if o == nil {
			break
		}
		for _, key := range []string{"driver", "format", "filename", "file.driver", "file.filename", "file.url"} {
			if value := propertyValue(o, key); value != "" {
				parts = append(parts, key+"="+value)
			}
		}
		if id = propertyValue(o, "file"); id == "" {
			break
		}
	}
	return strings.Join(parts, " ")
}

// definitionOf returns the content of an option, without its id and references.
func (s *side) definitionOf(flag, id string) string {
	o := s.made[flag+" "+id]
	if o == nil {
		return ""
	}
	text := o.Value
	for _, p := range o.Properties {
		if p.Key != "id" && qemuopt.Reference(flag, o.Backend(), p.Key) == "" {
			text += "," + p.Key + "=" + p.Value + p.Descriptor
		}
	}
	return text
}

func machineOf(p *plan.Plan) string {
	if m := p.Machine(); m != nil {
		if m.Value != "" {
			return m.Value
		}
		return propertyValue(m, "type")
	}
	return ""
}
