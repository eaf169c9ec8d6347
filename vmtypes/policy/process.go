package policy

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// checkQEMU judges QEMU's process and options.
func (c *checker) checkQEMU(p *plan.Plan) {
	q := &p.QEMU
	c.what = "QEMU"
	c.checkProgram(q.Executable)
	c.checkEnvironment(q.Env)
	c.checkAccess(q)
	sandboxed := false
	for i := range q.Args {
		c.checkOption(&q.Args[i])
		sandboxed = sandboxed || isSandbox(&q.Args[i])
	}
	c.what = "QEMU"
	if !sandboxed && !c.rule.Unsandboxed {
		c.denyWord("unsandboxed", "true", "it runs without -sandbox on,elevateprivileges=deny,spawn=deny")
	}
	count := 0
	for i := range q.Args {
		if strings.TrimLeft(q.Args[i].Flag, "-") == "sandbox" {
			count++
		}
	}
	if count > 1 && !c.rule.Unsandboxed {
		c.denyWord("unsandboxed", "true", "it has -sandbox more than once; put all its properties into one")
	}
}

// isSandbox reports whether an option confines QEMU in the same way as the stock types do.
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

// Sandbox returns the arguments that must precede the arguments of a plan on QEMU's command line, for types of a
// folder. It returns nil if the rule for these types, or the lack of a policy, allows QEMU without its sandbox.
// QEMU applies each -sandbox, so the options of a plan cannot undo these arguments.
func (p *Policy) Sandbox(folder string) []string {
	if p == nil {
		return nil
	}
	if rule, _ := p.ruleFor(folder); rule == nil || rule.Unsandboxed {
		return nil
	}
	return []string{"-sandbox", "on,elevateprivileges=deny,spawn=deny"}
}

// checkProgram requires that a program may be started as QEMU.
func (c *checker) checkProgram(name string) {
	if c.own.usesWord("programs", name) {
		return
	}
	for _, pattern := range c.patternsOf("programs") {
		if matchesPattern(pattern, name) && isCleanPath(name) {
			return
		}
	}
	word := ""
	if path.IsAbs(name) && path.Clean(name) == name {
		word = name
	}
	c.denyWord("programs", word, "the program "+name+" is not in its list programs")
}

// isCleanPath reports whether a path contains no . or .. or // elements.
func isCleanPath(name string) bool {
	return !strings.Contains(name, "/.") && !strings.Contains(name, "//")
}

func (c *checker) checkEnvironment(list []plan.Variable) {
	for _, v := range list {
		c.allowWord("environment", v.Name, "the environment variable "+v.Name)
	}
}

// checkAccess judges the files that a process declares in addition to its arguments.
func (c *checker) checkAccess(p *plan.Process) {
	for _, a := range p.Access {
		c.at = &plan.Option{Origin: a.Origin}
		c.checkFile(a.Mode, a.Path)
	}
	c.at = nil
}

// checkHelper judges a process next to QEMU.
func (c *checker) checkHelper(h plan.Process) {
	c.at, c.what = nil, "the helper "+h.Name
	c.checkEnvironment(h.Env)
	c.checkAccess(&h)
	if h.Dir != "" && (!c.inOwn(h.Dir) || path.Clean(h.Dir) != h.Dir) {
		c.checkFile("write", h.Dir) // and the files in it
	}
	if h.Ready != "" {
		c.checkFile("read", h.Ready)
	}
	for _, known := range c.rule.Helpers {
		if known.Program == Stock {
			asStock := map[string]func(plan.Process) bool{
				"swtpm": c.isStockSwtpm,
				"passt": c.isStockPasst,
			}[path.Base(h.Executable)]
			if slices.Contains(stockWords("helpers"), h.Executable) && asStock(h) {
				return
			}
			continue
		}
		if matchesPattern(known.Program, h.Executable) && isCleanPath(h.Executable) &&
			argumentsMatch(known.Arguments, h) {
			return
		}
	}
	command := strings.Join(append([]string{h.Executable}, h.Argv()...), " ")
	c.helper = &h
	c.denyWord("helpers", h.Executable, "it runs "+command+", which is not in its list helpers")
	c.helper = nil
}

// argumentsMatch reports whether each argument matches one of the patterns.
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

// isStockSwtpm reports whether a process is swtpm as started by the stock types, with its state in its working
// directory.
func (c *checker) isStockSwtpm(h plan.Process) bool {
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

// isStockPasst reports whether a process is passt as started by the stock types. It also judges the ports that are
// forwarded to the guest.
func (c *checker) isStockPasst(h plan.Process) bool {
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
		c.allowWord("networks", "passt", "the network passt")
	}
	return isolated
}

// passtPort judges a forwarded port, or "none".
func (c *checker) passtPort(o *plan.Option) bool {
	f, is := plan.PasstForward(*o)
	if !is {
		return o.Value == "none" && !o.List
	}
	c.at = o
	c.checkListen(f.Address, strconv.Itoa(f.Host))
	c.at = nil
	return true
}

// checkTaps judges taps and their connections.
func (c *checker) checkTaps(taps []plan.Tap) {
	for _, t := range taps {
		c.at, c.what = &plan.Option{Origin: t.Origin}, "the tap "+t.Name
		if t.Bridge != "" {
			c.allowWord("networks", "bridge "+t.Bridge, "the bridge "+t.Bridge)
		}
		if t.Subnet != "" {
			c.allowWord("networks", "masquerade", "masquerade")
		}
		for _, f := range t.Forwards {
			c.checkListen(f.Address, strconv.Itoa(f.Host))
		}
		if t.AllPorts != nil {
			c.checkListen("", "*")
		}
	}
	c.at = nil
}

// isExactlyAllowed reports whether the rule's list exact allows an option.
func (c *checker) isExactlyAllowed(o *plan.Option, flag string) bool {
	return slices.ContainsFunc(c.rule.Exact, func(pattern string) bool { return matchesExactly(pattern, flag, o) })
}

// matchesExactly reports whether a pattern allows an option: "-smbios type=3,asset=*". It compares a text in one piece
// as a whole, and a list by its properties.
func matchesExactly(pattern, flag string, o *plan.Option) bool {
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
