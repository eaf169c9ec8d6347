package compare

import (
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A side is one of the two plans, with indexes of it.
type side struct {
	plan *plan.Plan
	// made are the options that others refer to, by flag and id.
	made map[string]*plan.Option
	// roles say what a block node is for: "disk disk0", "firmware code".
	roles map[string]string
	// live are the options, by flag and id, and properties of them that a rule
	// covers.
	live map[string]bool
	// orders are the addresses that QEMU gives out by order.
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

// nodeOption returns the option that makes a block node, or nil.
func (s *side) nodeOption(id string) *plan.Option {
	if o := s.made["-blockdev "+id]; o != nil {
		return o
	}
	return s.made["-drive "+id]
}

// markNode notes what a block node, and what it is made of, is for.
func (s *side) markNode(id, role string) {
	for range len(s.plan.QEMU.Args) { // nodes can't be deeper
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

// markCovered notes what a rule covers.
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
		s.live["-drive "+r.Device+"-medium"] = true // of a drive that is empty
	case plan.Ports:
		s.live["-netdev "+r.Netdev+" hostfwd"] = true
	case plan.Balloon, plan.Disk, plan.Disks, plan.Password, plan.Affinity: // change nothing that QEMU is started with
	}
}

// describeContents says where the bytes of a block node are, and in what format.
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

// definitionOf returns what an option makes, without its id.
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
