package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vmop/internal/printable"
	"vmop/vmtypes/qemuopt"
)

// Limits of a plan. Linux allows 128 KiB for one argument and 2 MiB for all arguments (execve(2)). The path of a
// unix socket can have 107 bytes plus a NUL (unix(7)).
const (
	MaxOptions    = 16384
	MaxWord       = 128<<10 - 1
	MaxArgv       = 1 << 20
	MaxSocketPath = 107
	maxIfname     = 15
	// The kernel's MAX_TAP_QUEUES.
	maxQueues = 256
	// The maximum number of errors, and the maximum length of an error in bytes.
	maxFaults  = 100
	maxMessage = 2000
)

// A Fault is an error in a plan.
type Fault struct {
	// Message describes the error and how to correct it.
	Message string
	// Origin is the place in the VM type; it may be empty.
	Origin Origin
}

// String returns the message and the place.
func (f Fault) String() string {
	text := printable.Text(f.Message)
	if len(f.Origin) > 0 {
		text += "\n    made at " + printable.Line(f.Origin.String())
	}
	return text
}

// Check returns all errors in the plan, or nil.
func (p *Plan) Check() []Fault {
	c := &checker{plan: p, defined: make(map[thing]Origin, len(p.QEMU.Args))}
	if n := p.countLines(); n > MaxOptions {
		c.addFault(nil, "the plan has %d options, files, taps, sockets and rules, at most %d are allowed", n, MaxOptions)
		return c.faults
	}
	for _, proc := range p.Processes() {
		c.checkProcess(proc)
	}
	c.checkRoles()
	c.checkDescriptors()
	options := p.QEMU.expandOptions()
	for i := range options {
		c.defineIDs(&options[i])
	}
	for i := range options {
		c.checkOwn(&p.QEMU.Args[i]) // in the author's spelling
		c.checkReferences(&options[i])
		c.refuseCredentials(&options[i])
	}
	c.checkSingle(options)
	c.checkFiles()
	c.checkSockets()
	c.checkRules()
	if n := len(c.faults) - maxFaults; n > 0 {
		c.faults = append(c.faults[:maxFaults], Fault{Message: fmt.Sprintf("%d more errors", n)})
	}
	return c.faults
}

// refuseCredentials rejects credentials that everybody on the host could see.
func (c *checker) refuseCredentials(o *Option) {
	if _, encrypted := o.Get("keyid"); encrypted {
		return
	}
	for _, p := range o.Properties {
		if instead := qemuopt.CredentialInstead(o.Flag, p.Key, p.Value); instead != "" {
			c.addFault(o.Origin, "%s: everybody on the host sees the credential in %s on the command line; use %s", o.Flag, p.Key,
				instead)
		}
	}
}

// countLines returns the approximate number of lines of the plan.
func (p *Plan) countLines() int {
	n := len(p.Helpers) + len(p.Files) + len(p.Taps) + len(p.Listeners) + len(p.Sockets) + len(p.Drives) + len(p.Rules)
	for _, proc := range p.Processes() {
		n += len(proc.Args) + len(proc.Env) + len(proc.Access)
	}
	return n
}

// A thing is an object that an option creates and other options refer to.
type thing struct {
	kind qemuopt.Kind
	id   string // "serial0"
}

type checker struct {
	plan *Plan
	// defined maps things to their origins.
	defined map[thing]Origin
	faults  []Fault
}

func (c *checker) addFault(origin Origin, format string, args ...any) {
	message := printable.Line(fmt.Sprintf(format, args...))
	if len(message) > maxMessage {
		message = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(message[:maxMessage], ""), len(message))
	}
	c.faults = append(c.faults, Fault{Message: message, Origin: origin})
}

// checkProcess checks everything that QEMU and helpers have in common.
func (c *checker) checkProcess(p Process) {
	switch {
	case isUnprintable(p.Name):
		c.addFault(nil, "%q cannot be the name of a process: use printable characters", p.Name)
	case p.Executable == "":
		c.addFault(nil, "%s has no executable; a part must name its program", p.Name)
	case !filepath.IsAbs(p.Executable):
		c.addFault(nil, "%s: executable %q is not an absolute path", p.Name, p.Executable)
	}
	c.checkCPUs(p.Name, p.CPUs)
	total := 0
	for i := range p.Args {
		o := &p.Args[i]
		if o.List && o.Value == "" && len(o.Properties) == 0 {
			c.addFault(o.Origin, "%s: %s has neither a value nor properties; leave the option out (None)", p.Name, o.Flag)
		}
		size := o.sizeInBytes()
		total += size + len(o.Flag)
		if o.List && isMisreadList(o.Value) {
			c.addFault(o.Origin, "%s: the value %q would be read as a property, because of the equals sign; give it with "+
				"its name, as a property", p.Name, o.Flag+" "+o.Value)
		}
		if o.hasNUL() {
			c.addFault(o.Origin, "%s: %s contains a NUL byte: %q", p.Name, o.Flag, o.Words(descriptorName))
		}
		if o.hasBrokenText() {
			c.addFault(o.Origin, "%s: %s is not UTF-8: %q", p.Name, o.Flag, o.Words(descriptorName))
		}
		if size > MaxWord || len(o.Flag) > MaxWord {
			c.addFault(o.Origin, "%s: %.40s is %d bytes long, Linux allows %d for one argument",
				p.Name, o.Flag, max(size, len(o.Flag)), MaxWord)
		}
	}
	if total > MaxArgv {
		c.addFault(nil, "%s: the arguments take %d bytes, at most %d are allowed", p.Name, total, MaxArgv)
	}
	for _, a := range p.Access {
		if !filepath.IsAbs(a.Path) || filepath.Clean(a.Path) != a.Path || isUnprintable(a.Path) {
			c.addFault(a.Origin, "%s: access to %q: the path must be absolute, without . and ..", p.Name, a.Path)
		}
	}
	for _, v := range p.Env {
		if v.Name == "" || v.Name[0] <= '9' || strings.Trim(v.Name, variableBytes) != "" ||
			strings.IndexByte(v.Value, 0) >= 0 {
			c.addFault(nil, "%s: environment variable %q=%q cannot be set; a name has letters, digits and _",
				p.Name, v.Name, v.Value)
		}
	}
}

// variableBytes are the bytes that a shell allows in the name of a variable.
const variableBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789"

// checkRoles checks that only one helper has the role of the TPM.
func (c *checker) checkRoles() {
	users := map[string]string{}
	for _, h := range c.plan.Helpers {
		if other := users[h.Role]; other != "" && h.Role == RoleTPM {
			c.addFault(nil, "the helpers %s and %s both have the role %s; a machine has one", other, h.Name, h.Role)
		}
		users[h.Role] = h.Name
	}
}

// isMisreadList reports whether QEMU would read the first value of a list as a property. QEMU reads a name up to the
// first equals sign, unless there is a comma before it (util/qemu-option.c, get_opt_name_value).
func isMisreadList(value string) bool {
	i := strings.IndexAny(value, "=,")
	return i >= 0 && value[i] == '='
}

// isUnprintable reports whether a name would break the line that shows it.
func isUnprintable(name string) bool {
	return printable.Line(name) != name
}

// checkDescriptors checks that each descriptor is defined once and used once.
func (c *checker) checkDescriptors() {
	made := map[string]Origin{}
	add := func(name string, origin Origin) {
		if before, ok := made[name]; ok {
			c.addFault(origin, "descriptor %q is defined twice, first at %s", name, before)
			return
		}
		made[name] = origin
	}
	for _, t := range c.plan.Taps {
		if t.Queues < 0 || t.Queues > maxQueues {
			c.addFault(t.Origin, "tap %q: queues = %d, but must be 1 to %d", t.Name, t.Queues, maxQueues)
			t.Queues = 1
		}
		for i := range max(t.Queues, 1) {
			add(Queue(t.Name, i), t.Origin)
		}
		if t.Name == "" || len(t.Name) > maxIfname || strings.ContainsAny(t.Name, "/ ") || isUnprintable(t.Name) {
			c.addFault(t.Origin, "tap %q: the name of an interface has 1 to %d bytes, no slash and no blank",
				t.Name, maxIfname)
		}
	}
	for _, l := range c.plan.Listeners {
		add(l.Name, l.Origin)
		add(Client(l.Name), l.Origin)
		if isUnprintable(l.Name) {
			c.addFault(l.Origin, "listener %q: a name has printable characters only", l.Name)
		}
	}
	users := map[string]string{}
	for _, p := range c.plan.Processes() {
		for _, name := range p.Descriptors() {
			if _, ok := made[name]; !ok {
				c.addFault(nil, "%s wants descriptor %q, but no part has a tap or a listener of that name", p.Name, name)
			}
			if other, ok := users[name]; ok {
				c.addFault(made[name], "descriptor %q is used by %s and by %s", name, other, p.Name)
			}
			users[name] = p.Name
		}
	}
	for _, t := range c.plan.Taps {
		if users[t.Name] == "" {
			c.addFault(t.Origin, "tap %q is not used by any option; pass it as a property: fd = the tap", t.Name)
		}
	}
	for _, l := range c.plan.Listeners {
		if users[l.Name] == "" {
			c.addFault(l.Origin, "listener %q is not used by any option; pass it as a property: fd = the listener", l.Name)
		}
	}
}

func (c *checker) defineIDs(o *Option) {
	known, id := qemuopt.Flag(o.Flag), o.ID()
	if known == nil || known.Makes == "" || id == "" {
		return
	}
	kind := known.Makes
	if before, ok := c.defined[thing{kind, id}]; ok {
		c.addFault(o.Origin, "%s: the %s %q is already defined at %s", o.Flag, kind, id, before)
		return
	}
	c.defined[thing{kind, id}] = o.Origin
}

// checkFiles checks the fields of copies for values that could be misunderstood.
func (c *checker) checkFiles() {
	for _, f := range c.plan.Files {
		for _, path := range []string{f.From, f.To} {
			if !filepath.IsAbs(path) || isUnprintable(path) {
				c.addFault(f.Origin, "copy_once: %q is not an absolute path of printable characters", path)
			}
		}
		if strings.Contains(f.Kind, "/") || isUnprintable(f.Kind) {
			c.addFault(f.Origin, "copy_once: kind = %q must have no slash and only printable characters: it becomes part of "+
				"a file name", f.Kind)
		}
	}
}

// checkSingle checks options that can only be given once, because QEMU takes the last.
func (c *checker) checkSingle(options []Option) {
	first := map[string]*Option{}
	for i := range options {
		o := &options[i]
		known := qemuopt.Flag(o.Flag)
		if known == nil || !known.Once {
			continue
		}
		if before := first[known.Flag]; before != nil {
			c.addFault(o.Origin, "%s is given a second time, first at %s; QEMU would take the last: replace the "+
				"first with it: replace(part, option(…)), or replace(part, machine = …)", o.Flag, before.Origin)
			continue
		}
		first[known.Flag] = o
	}
}

func (c *checker) checkOwn(o *Option) {
	toChardev := []string{"-serial", "-parallel", "-debugcon", "-virtioconsole"}
	if slices.Contains(toChardev, "-"+strings.TrimLeft(o.Flag, "-")) && strings.HasPrefix(o.Value, "mon:") {
		c.addFault(o.Origin, "%s %s: mon: attaches a second monitor; the runner makes the monitor by itself", o.Flag, o.Value)
	}
	if known := qemuopt.Flag(o.Flag); known != nil && known.Own != "" {
		c.addFault(o.Origin, "%s cannot be used by a VM type: %s", o.Flag, known.Own)
	}
	if !strings.HasPrefix(o.Flag, "-") {
		c.addFault(o.Origin, "%q is not an option of QEMU: it must start with a dash", o.Flag)
	}
}

// checkReferences checks that all references to ids lead to existing objects.
func (c *checker) checkReferences(o *Option) {
	kindOf := qemuopt.References(o.Flag, o.Backend())
	for _, p := range o.Properties {
		if p.Value == "" || p.Descriptor != "" {
			continue
		}
		kind := kindOf(p.Key)
		if kind == "" {
			continue
		}
		if _, ok := c.defined[thing{kind, p.Value}]; !ok {
			c.addFault(o.Origin, "%s %s: %s=%s, but there is no %s of that name", o.Flag, o.Value, p.Key, p.Value, kind)
		}
	}
}

func (c *checker) checkSockets() {
	users := map[string]string{}
	check := func(path, what string, origin Origin) {
		if len(path) > MaxSocketPath {
			c.addFault(origin, "socket %s (%s): the path has %d bytes, unix sockets allow %d; use a shorter runtimeDir",
				path, what, len(path), MaxSocketPath)
		}
		if other, ok := users[path]; ok {
			c.addFault(origin, "socket %s is meant for %s and for %s", path, other, what)
		}
		users[path] = what
	}
	for _, l := range c.plan.Listeners {
		check(l.Path, l.Name, l.Origin)
	}
	for _, s := range c.plan.Sockets {
		check(s.Path, s.Role, nil)
	}
	for _, o := range c.plan.QEMU.expandOptions() {
		if path, ok := o.Get("path"); ok && o.Flag == "-chardev" && o.Value == "socket" && len(path) > MaxSocketPath {
			c.addFault(o.Origin, "-chardev socket: the path %s has %d bytes, unix sockets allow %d",
				path, len(path), MaxSocketPath)
		}
	}
}

// checkRules checks that the subject of each rule exists.
func (c *checker) checkRules() {
	device := func(kind, id string) {
		if _, ok := c.defined[thing{qemuopt.DeviceID, id}]; !ok {
			c.addFault(nil, "hotplug.%s: there is no device with the id %q", kind, id)
		}
	}
	seen := map[string]bool{}
	var memory, affinity, disks Rule
	for _, r := range c.plan.Rules {
		if key := r.String(); seen[key] {
			c.addFault(nil, "hotplug.%s is given twice: %s", r.Kind(), key)
		} else {
			seen[key] = true
		}
		switch r := r.(type) {
		case CPUs:
			if strings.Count(r.ID, "%d") != 1 || strings.Count(r.ID, "%") != 1 {
				c.addFault(nil, "hotplug.cpus: id = %q must contain one %%d, for the number of the CPU", r.ID)
			}
			if r.Boot < 1 || r.Maximum < r.Boot {
				c.addFault(nil, "hotplug.cpus: boot = %d, maximum = %d; required: 1 <= boot <= maximum", r.Boot, r.Maximum)
			}
		case Balloon:
			device("balloon", r.Device)
			c.onlyOne(r, &memory, "would both follow vm.currentRam")
		case Memory:
			device("memory", r.Device)
			c.onlyOne(r, &memory, "would both follow vm.currentRam")
			if r.Base < 1 || r.Maximum < r.Base || r.Block < 1 {
				c.addFault(nil, "hotplug.memory: base = %d, maximum = %d, block = %d; required: 1 <= base <= maximum and "+
					"1 <= block", r.Base, r.Maximum, r.Block)
			}
		case Medium:
			device("medium", r.Device)
		case Disk:
			device("disk", r.Device)
		case Disks:
			c.checkPluggable(r, device)
			c.onlyOne(r, &disks, "would both attach the drives")
		case Affinity:
			c.checkAffinity(r)
			c.onlyOne(r, &affinity, "would both place the guest's CPUs")
		case Ports:
			if _, ok := c.defined[thing{qemuopt.Netdev, r.Netdev}]; !ok {
				c.addFault(nil, "hotplug.ports: there is no network backend with the id %q", r.Netdev)
			}
		case Password:
			if r.Protocol != "spice" && r.Protocol != "vnc" {
				c.addFault(nil, "hotplug.password: protocol = %q, but must be spice or vnc", r.Protocol)
			}
		}
	}
}

// checkPluggable checks that the buses for disks and CD drives exist.
func (c *checker) checkPluggable(r Disks, device func(kind, id string)) {
	for _, bus := range r.Buses {
		device("disks", bus)
	}
	if r.Driver == "" || len(r.Buses) < 1 || len(r.Buses) > MaxPluggedDisks {
		c.addFault(nil, "hotplug.disks: driver = %q and %d buses; required: a driver and 1 to %d buses", r.Driver, len(r.Buses),
			MaxPluggedDisks)
	}
	controller, _, isBus := strings.Cut(r.CDBus, ".")
	switch {
	case r.CDDriver == "" && r.CDBus+r.CDHolder == "":
	case r.CDDriver == "" || !isBus:
		c.addFault(nil, "hotplug.disks: cd_driver = %q, cd_bus = %q; required: a driver and a bus, such as usb.0", r.CDDriver, r.CDBus)
	default:
		device("disks", controller)
	}
}

// onlyOne rejects a second rule that controls the same thing as first.
func (c *checker) onlyOne(r Rule, first *Rule, both string) {
	if *first != nil {
		c.addFault(nil, "%s and %s %s; a machine can have one of them", *first, r, both)
	}
	*first = r
}
