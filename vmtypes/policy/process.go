package policy

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// qemu judges the machine itself.
func (c *checker) qemu(p *plan.Plan) {
	q := &p.QEMU
	c.what = "QEMU"
	c.program(q.Executable)
	c.environment(q.Env)
	c.access(q)
	sandboxed := false
	for i := range q.Args {
		c.option(&q.Args[i])
		sandboxed = sandboxed || isSandbox(&q.Args[i])
	}
	c.what = "QEMU"
	if !sandboxed && !c.rule.Unsandboxed {
		c.denied("unsandboxed", "it runs without -sandbox on,elevateprivileges=deny,spawn=deny")
	}
	count := 0
	for i := range q.Args {
		if strings.TrimLeft(q.Args[i].Flag, "-") == "sandbox" {
			count++
		}
	}
	if count > 1 && !c.rule.Unsandboxed {
		c.denied("unsandboxed", "it has -sandbox more than once; put all its properties into one")
	}
}

// isSandbox reports whether an option confines QEMU as the stock types do.
func isSandbox(o *plan.Option) bool {
	on, _ := qemuopt.Bool(o.Value)
	if _, again := o.Get("enable"); again || !on || !o.List || strings.TrimLeft(o.Flag, "-") != "sandbox" {
		return false
	}
	denies := func(key string) bool {
		return slices.ContainsFunc(o.Properties, func(p plan.Property) bool { return p.Key == key }) &&
			!slices.ContainsFunc(o.Properties, func(p plan.Property) bool { return p.Key == key && p.Value != "deny" })
	}
	return denies("spawn") && denies("elevateprivileges")
}

// Sandbox returns the words that must stand before those of a plan on QEMU's command line, for
// types of a folder; nil if the rule for them, or no policy, allows QEMU without its sandbox.
// QEMU applies each -sandbox: whatever a plan adds, it can't undo this one.
func (p *Policy) Sandbox(folder string) []string {
	if p == nil {
		return nil
	}
	if rule, _ := p.ruleFor(folder); rule == nil || rule.Unsandboxed {
		return nil
	}
	return []string{"-sandbox", "on,elevateprivileges=deny,spawn=deny"}
}

// program wants a program to be one that may be started as QEMU.
func (c *checker) program(name string) {
	if c.own.allows("programs", name) {
		return
	}
	for _, pattern := range c.patterns("programs") {
		if match(pattern, name) && clean(name) {
			return
		}
	}
	c.denied("programs", "the program "+name+" is not in its list programs")
}

// clean reports whether a path has no way round in it.
func clean(name string) bool { return !strings.Contains(name, "/.") && !strings.Contains(name, "//") }

func (c *checker) environment(list []plan.Variable) {
	for _, v := range list {
		c.allow("environment", v.Name, "the environment variable "+v.Name)
	}
}

// access judges what a process uses besides what its arguments show.
func (c *checker) access(p *plan.Process) {
	for _, a := range p.Access {
		c.at = &plan.Option{Origin: a.Origin}
		c.file(a.Mode, a.Path)
	}
	c.at = nil
}

// helper judges a process beside QEMU.
func (c *checker) helper(h plan.Process) {
	c.at, c.what = nil, "the helper "+h.Name
	c.environment(h.Env)
	c.access(&h)
	if h.Dir != "" && (!c.inOwn(h.Dir) || path.Clean(h.Dir) != h.Dir) {
		c.file("write", h.Dir) // and what it makes in there
	}
	if h.Ready != "" {
		c.file("read", h.Ready)
	}
	for _, known := range c.rule.Helpers {
		if known.Program == Stock {
			asStock := map[string]func(plan.Process) bool{"swtpm": c.swtpm, "passt": c.passt}[path.Base(h.Executable)]
			if slices.Contains(stockWords("helpers"), h.Executable) && asStock(h) {
				return
			}
			continue
		}
		if match(known.Program, h.Executable) && clean(h.Executable) && argumentsMatch(known.Arguments, h) {
			return
		}
	}
	command := strings.Join(append([]string{h.Executable}, h.Argv()...), " ")
	c.denied("helpers", "it runs "+command+", which is not in its list helpers")
}

// argumentsMatch reports whether each argument is allowed by one of the patterns.
func argumentsMatch(patterns []string, h plan.Process) bool {
	for _, word := range h.Argv() {
		if !slices.ContainsFunc(patterns, func(pattern string) bool {
			return pattern == word || matchWord(pattern, word)
		}) {
			return false
		}
	}
	return true
}

// swtpm reports whether a process is swtpm as the stock types start it, with its
// state in its working directory.
func (c *checker) swtpm(h plan.Process) bool {
	if h.Dir != path.Join(c.subject.DataDir, plan.TPMFolder) || h.Exempt {
		return false
	}
	for i := range h.Args {
		o := &h.Args[i]
		switch o.Flag {
		case "socket", "--tpm2", "--terminate":
			if o.Value != "" || len(o.Properties) > 0 {
				return false
			}
		case "--tpmstate":
			for _, p := range o.Properties {
				if p.Key != "dir" && p.Key != "mode" || p.Key == "dir" && p.Value != "." {
					return false
				}
			}
			if !o.List || o.Value != "" {
				return false
			}
		case "--ctrl":
			if !o.List || o.Value != "" || slices.ContainsFunc(o.Properties, func(p plan.Property) bool {
				return p.Descriptor == "" && (p.Key != "type" || p.Value != "unixio")
			}) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// passt reports whether a process is passt as the stock types start it, and judges the
// ports that lead to the guest.
func (c *checker) passt(h plan.Process) bool {
	if h.Role != plan.RoleNetwork || h.Dir != "" {
		return false
	}
	isolated := false
	for i := range h.Args {
		o := &h.Args[i]
		switch o.Flag {
		case "--foreground", "--quiet", "--ipv4-only", "--no-map-gw":
			if o.Value != "" || len(o.Properties) > 0 {
				return false
			}
			isolated = isolated || o.Flag == "--no-map-gw"
		case "--fd":
			if len(o.Properties) != 1 || o.Properties[0].Descriptor == "" {
				return false
			}
		case "--tcp-ports", "--udp-ports":
			if !c.passtPort(o) {
				return false
			}
		default:
			return false
		}
	}
	if isolated {
		c.allow("networks", "passt", "the network passt")
	}
	return isolated
}

// passtPort judges one port, or "none".
func (c *checker) passtPort(o *plan.Option) bool {
	f, is := plan.PasstForward(*o)
	if !is {
		return o.Value == "none" && !o.List
	}
	c.at = o
	c.listen(f.Address, strconv.Itoa(f.Host))
	c.at = nil
	return true
}

// network judges taps, and what they lead to.
func (c *checker) network(taps []plan.Tap) {
	for _, t := range taps {
		c.at, c.what = &plan.Option{Origin: t.Origin}, "the tap "+t.Name
		if t.Bridge != "" {
			c.allow("networks", "bridge "+t.Bridge, "the bridge "+t.Bridge)
		}
		if t.Subnet != "" {
			c.allow("networks", "masquerade", "masquerade")
		}
		for _, f := range t.Forwards {
			c.listen(f.Address, strconv.Itoa(f.Host))
		}
		if t.AllPorts != nil {
			c.listen("", "*")
		}
	}
	c.at = nil
}

// exactly reports whether an option is allowed as it is.
func (c *checker) exactly(o *plan.Option, flag string) bool {
	return slices.ContainsFunc(c.rule.Exact, func(pattern string) bool { return exact(pattern, flag, o) })
}

// exact reports whether a pattern allows an option: "-smbios type=3,asset=*". A text
// that is one piece is matched as a whole, of a list each property.
func exact(pattern, flag string, o *plan.Option) bool {
	wanted, rest, _ := strings.Cut(pattern, " ")
	if wanted != flag {
		return false
	}
	if !o.List {
		return matchWord(rest, o.Value)
	}
	words := strings.Split(rest, ",")
	if valued := !strings.Contains(words[0], "="); valued || o.Value != "" {
		if !valued || !matchWord(words[0], o.Value) {
			return false
		}
		words = words[1:]
	}
	for _, p := range o.Properties {
		if p.Descriptor == "" && !slices.ContainsFunc(words, func(word string) bool {
			key, value, _ := strings.Cut(word, "=")
			return key == p.Key && (value == p.Value || !strings.Contains(p.Value, "..") &&
				matchFrom(value, p.Value, ""))
		}) {
			return false
		}
	}
	return true
}
