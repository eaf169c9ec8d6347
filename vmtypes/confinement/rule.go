package confinement

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"vmop/internal/confine"
	"vmop/internal/printable"
	"vmop/vmtypes/plan"
)

// A Kind is the kind of thing that a rule allows.
type Kind string

// The kinds, in their printed order.
const (
	Read       Kind = "read"       // read and execute a file, or all files in a folder
	Write      Kind = "write"      // read and write a file, or all files in a folder, and create files there
	Create     Kind = "create"     // write a file, which the runner creates if necessary
	Sockets    Kind = "sockets"    // create sockets in a folder
	Reach      Kind = "reach"      // connect to a unix socket, or to all sockets in a folder
	Listen     Kind = "listen"     // on a TCP port
	Connect    Kind = "connect"    // to a TCP port
	Except     Kind = "except"     // deny part of Connect: Loopback, Internal
	Capability Kind = "capability" // a capability from capabilities(7), if the runner has it
)

var kinds = []Kind{Read, Write, Create, Sockets, Reach, Listen, Connect, Except, Capability}

// Loopback is the Name of a rule that denies loopback addresses to the guest. QEMU's own connections to disks and
// CDs remain allowed.
const Loopback = "loopback"

// Internal is the Name of a rule that denies internal addresses: link-local addresses and the metadata addresses
// of clouds, and in a pod also loopback addresses. It prevents servers of CDs from redirecting QEMU to these
// addresses.
const Internal = "internal"

// AnyPort is the Name of a rule for all TCP ports.
const AnyPort = "any"

// freePort is the Name of a rule for listening on ports that the kernel chooses.
const freePort = "free"

// A Rule allows one thing; only the kind Except denies something. Everything without a rule is denied.
type Rule struct {
	Kind Kind `json:"kind"`
	// Name is an absolute path, a port, AnyPort, freePort, Loopback, Internal, or a capability in lower case
	// without CAP_.
	Name string `json:"name"`
	// Why is the option that needs the rule, or another reason.
	Why string `json:"why"`
	// Origin is the place in the VM type that created the option; it may be empty.
	Origin plan.Origin `json:"origin,omitempty"`
}

// A Domain contains everything that a single process may use.
type Domain struct {
	// Process is the name of the process in the plan.
	Process string `json:"process"`
	// Exempt means that the process confines itself, which the rules would prevent.
	Exempt bool   `json:"exempt,omitempty"`
	Rules  []Rule `json:"rules,omitempty"`
	// noAttributes means that the process never changes modes, owners and dates of files, and never watches
	// folders.
	noAttributes bool
	// pod means that the process is in a pod of the manager.
	pod bool
}

// whyColumn is the column of reasons in Text, if the line is shorter.
const whyColumn = 60

// Text returns the rules, one per line, in a fixed order. If why is true, each line contains the option that
// needs the rule, and the option's origin in the VM type.
func (d Domain) Text(why bool) string {
	var b strings.Builder
	b.WriteString("confinement of " + printable.Line(d.Process) + "\n")
	if d.Exempt {
		b.WriteString("    none: it confines itself\n")
	}
	for _, r := range d.Rules {
		line := "    " + string(r.Kind) + strings.Repeat(" ", len(Capability)-len(r.Kind)+1) +
			printable.Line(r.Name)
		b.WriteString(line)
		if why {
			b.WriteString(strings.Repeat(" ", max(whyColumn-len(line), 0)) + "  # " + printable.Line(r.Why))
			if len(r.Origin) > 0 {
				b.WriteString(" < " + printable.Line(r.Origin.String()))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// MayRead reports whether the process may read a file with this name.
func (d Domain) MayRead(file string) bool {
	return d.Exempt || slices.ContainsFunc(d.Rules, func(r Rule) bool {
		return (r.Kind == Read || r.Kind == Write || r.Kind == Create) &&
			(r.Name == file || strings.HasPrefix(file, strings.TrimSuffix(r.Name, "/")+"/"))
	})
}

// Lacks returns the first rule of another domain that this domain lacks, as text, or a rule of the kind Except that
// only one of them has; "" if there is none.
func (d Domain) Lacks(other Domain) string {
	if d.Exempt {
		return ""
	}
	has := func(of Domain, r Rule) bool {
		return slices.ContainsFunc(of.Rules, func(x Rule) bool {
			every := x.Name == AnyPort && (x.Kind == Listen || x.Kind == Connect)
			return x.Kind == r.Kind && (x.Name == r.Name || every)
		})
	}
	for _, r := range other.Rules {
		if !has(d, r) {
			return string(r.Kind) + " " + r.Name
		}
	}
	for _, r := range d.Rules {
		if r.Kind == Except && !has(other, r) {
			return "all addresses " + string(r.Kind) + " " + r.Name
		}
	}
	return ""
}

// MayConnect reports whether the process may connect to a TCP port.
func (d Domain) MayConnect(to uint16) bool {
	return d.Exempt || slices.ContainsFunc(d.Rules, func(r Rule) bool {
		return r.Kind == Connect && (r.Name == AnyPort || portNumber(r.Name) == to)
	})
}

// Kernel returns the rules in the form for the kernel; nil if the process is exempt.
func (d Domain) Kernel() *confine.Rules {
	if d.Exempt {
		return nil
	}
	k := &confine.Rules{NoAttributes: d.noAttributes}
	for _, r := range d.Rules {
		switch r.Kind {
		case Read:
			k.Paths = append(k.Paths, confine.Path{Name: r.Name, Access: confine.Read})
		case Write:
			k.Paths = append(k.Paths, confine.Path{Name: r.Name, Access: confine.Write})
		case Create:
			k.Paths = append(k.Paths, confine.Path{Name: r.Name, Access: confine.Write, Make: true})
		case Sockets:
			k.Paths = append(k.Paths, confine.Path{Name: r.Name, Access: confine.Sockets})
		case Reach:
			k.Paths = append(k.Paths, confine.Path{Name: r.Name})
		case Listen:
			if r.Name == freePort {
				k.Listen.Free = true
				continue
			}
			k.Listen = k.Listen.With(portNumber(r.Name))
		case Connect:
			k.Connect = k.Connect.With(portNumber(r.Name))
		case Except:
			k.NoLoopback = true
			k.NoInternal = k.NoInternal || r.Name == Internal
			k.NoOwnLoopback = k.NoInternal && d.pod
		case Capability:
			k.Capabilities = append(k.Capabilities, r.Name)
		}
	}
	return k
}

// sortRules returns the rules in the order of their kinds, without duplicates. It keeps the first reason of a rule.
func sortRules(rules []Rule) []Rule {
	slices.SortStableFunc(rules, func(a, b Rule) int {
		if a.Kind != b.Kind {
			return cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind))
		}
		if a.Kind == Listen || a.Kind == Connect {
			return cmp.Or(cmp.Compare(portNumber(a.Name), portNumber(b.Name)), strings.Compare(a.Name, b.Name))
		}
		return strings.Compare(a.Name, b.Name)
	})
	return slices.CompactFunc(rules, func(a, b Rule) bool { return a.Kind == b.Kind && a.Name == b.Name })
}

// portNumber returns the number of a port, or 0 for AnyPort.
func portNumber(name string) uint16 {
	n, err := strconv.ParseUint(name, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}
