package confinement

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"vmop/confine"
	"vmop/printable"
	"vmop/vmtypes/plan"
)

// A Kind is what a rule allows.
type Kind string

// The kinds, in the order in which they are printed.
const (
	Read       Kind = "read"       // read and execute a file, or all in a folder
	Write      Kind = "write"      // read and write a file, or all in a folder, and make files there
	Create     Kind = "create"     // write a file that the runner makes if it isn't there
	Sockets    Kind = "sockets"    // make sockets in a folder
	Reach      Kind = "reach"      // connect to a unix socket, or to those in a folder
	Listen     Kind = "listen"     // on a TCP port
	Connect    Kind = "connect"    // to a TCP port
	Except     Kind = "except"     // denies what Connect allows: Loopback, Internal
	Capability Kind = "capability" // one of capabilities(7), if the runner has it
)

var kinds = []Kind{Read, Write, Create, Sockets, Reach, Listen, Connect, Except, Capability}

// Loopback is what a rule denies that keeps the guest from loopback addresses. QEMU's own connections, to disks
// and CDs, are allowed.
const Loopback = "loopback"

// Internal is what a rule denies that keeps the servers of CDs from leading QEMU to internal addresses: link-local
// ones and those of clouds' metadata, in a pod loopback addresses, too.
const Internal = "internal"

// AnyPort is what a rule about TCP names if it is for all ports.
const AnyPort = "any"

// FreePort is what a rule about listening names if it is for ports that the kernel chooses.
const FreePort = "free"

// A Rule allows one thing, except for Except. What no rule allows is denied.
type Rule struct {
	Kind Kind `json:"kind"`
	// Name is an absolute path, a port, AnyPort or FreePort, Loopback, or a capability without CAP_, in
	// small letters.
	Name string `json:"name"`
	// Why is the option that needs it, or a reason in words.
	Why string `json:"why"`
	// Origin is where the VM type made the option; it may be empty.
	Origin plan.Origin `json:"origin,omitempty"`
}

// A Domain is what one process may use.
type Domain struct {
	// Process is its name in the plan.
	Process string `json:"process"`
	// Exempt says that the process confines itself, in a way that the rules would
	// prevent.
	Exempt bool   `json:"exempt,omitempty"`
	Rules  []Rule `json:"rules,omitempty"`
	// noAttributes says that the process neither changes modes, owners and dates of files nor watches folders.
	noAttributes bool
	// pod says that the process is in a pod of the manager.
	pod bool
}

// whyColumn is where the reasons start in Text, if the line is shorter.
const whyColumn = 60

// Text returns the rules, a line each, in a fixed order; with why set, each with the
// option that needs it and where the VM type made that.
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

// MayRead reports whether a file may be read, by its name.
func (d Domain) MayRead(file string) bool {
	return d.Exempt || slices.ContainsFunc(d.Rules, func(r Rule) bool {
		return (r.Kind == Read || r.Kind == Write || r.Kind == Create) &&
			(r.Name == file || strings.HasPrefix(file, strings.TrimSuffix(r.Name, "/")+"/"))
	})
}

// MayConnect reports whether the process may connect to a TCP port.
func (d Domain) MayConnect(to uint16) bool {
	return d.Exempt || slices.ContainsFunc(d.Rules, func(r Rule) bool {
		return r.Kind == Connect && (r.Name == AnyPort || port(r.Name) == to)
	})
}

// Kernel returns the rules as the kernel gets them; nil if the process is exempt.
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
			if r.Name == FreePort {
				k.Listen.Free = true
				continue
			}
			k.Listen = k.Listen.With(port(r.Name))
		case Connect:
			k.Connect = k.Connect.With(port(r.Name))
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

// sorted returns rules in the order of their kinds, each once. The first reason for a
// rule is kept.
func sorted(rules []Rule) []Rule {
	slices.SortStableFunc(rules, func(a, b Rule) int {
		if a.Kind != b.Kind {
			return cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind))
		}
		if a.Kind == Listen || a.Kind == Connect {
			return cmp.Or(cmp.Compare(port(a.Name), port(b.Name)), strings.Compare(a.Name, b.Name))
		}
		return strings.Compare(a.Name, b.Name)
	})
	return slices.CompactFunc(rules, func(a, b Rule) bool { return a.Kind == b.Kind && a.Name == b.Name })
}

// port returns the number of a port, 0 for AnyPort.
func port(name string) uint16 {
	n, err := strconv.ParseUint(name, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}
