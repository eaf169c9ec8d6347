package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vmop/printable"
	"vmop/vmtypes/qemuopt"
)

// Bounds of a plan. Linux allows 128 KiB for one argument and 2 MiB for all
// (execve(2)); a path of a unix socket has 107 bytes and a NUL (unix(7)).
const (
	MaxOptions    = 16384
	MaxWord       = 128<<10 - 1
	MaxArgv       = 1 << 20
	MaxSocketPath = 107
	maxIfname     = 15
	// The kernel's MAX_TAP_QUEUES.
	maxQueues = 256
	// More faults, or longer ones, are not worth reading.
	maxFaults  = 100
	maxMessage = 2000
)

// A Fault is something wrong with a plan.
type Fault struct {
	// Message says what is wrong and what would be right.
	Message string
	// Origin is where the VM type made it; it may be empty.
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

// Check returns everything that is wrong with the plan, or nil.
func (p *Plan) Check() []Fault {
	c := &checker{plan: p, defined: make(map[thing]Origin, len(p.QEMU.Args))}
	if n := p.things(); n > MaxOptions {
		c.fault(nil, "the plan has %d options, files, taps, sockets and rules, at most %d are allowed", n, MaxOptions)
		return c.faults
	}
	for _, proc := range p.Processes() {
		c.process(proc)
	}
	c.roles()
	c.descriptors()
	options := p.QEMU.options()
	for i := range options {
		c.define(&options[i])
	}
	for i := range options {
		c.own(&p.QEMU.Args[i]) // as its author has spelled it
		c.references(&options[i])
		c.credentials(&options[i])
	}
	c.once(options)
	c.files()
	c.sockets()
	c.rules()
	if n := len(c.faults) - maxFaults; n > 0 {
		c.faults = append(c.faults[:maxFaults], Fault{Message: fmt.Sprintf("%d more faults", n)})
	}
	return c.faults
}

// credentials refuses those that everybody on the host would see.
func (c *checker) credentials(o *Option) {
	if _, encrypted := o.Get("keyid"); encrypted {
		return
	}
	for _, p := range o.Properties {
		if instead := qemuopt.CredentialInstead(o.Flag, p.Key, p.Value); instead != "" {
			c.fault(o.Origin, "%s: everybody on the host sees the credential in %s on the command line; use %s", o.Flag, p.Key,
				instead)
		}
	}
}

// things is how many lines the plan has, about.
func (p *Plan) things() int {
	n := len(p.Helpers) + len(p.Files) + len(p.Taps) + len(p.Listeners) + len(p.Sockets) + len(p.Drives) + len(p.Rules)
	for _, proc := range p.Processes() {
		n += len(proc.Args) + len(proc.Env) + len(proc.Access)
	}
	return n
}

// A thing is what an option makes for others to refer to.
type thing struct {
	kind qemuopt.Kind
	id   string // "serial0"
}

type checker struct {
	plan *Plan
	// defined says where things were made.
	defined map[thing]Origin
	faults  []Fault
}

func (c *checker) fault(origin Origin, format string, args ...any) {
	message := printable.Line(fmt.Sprintf(format, args...))
	if len(message) > maxMessage {
		message = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(message[:maxMessage], ""), len(message))
	}
	c.faults = append(c.faults, Fault{Message: message, Origin: origin})
}

// process checks what holds for every command.
func (c *checker) process(p Process) {
	switch {
	case unprintable(p.Name):
		c.fault(nil, "%q cannot be the name of a process: want printable characters", p.Name)
	case p.Executable == "":
		c.fault(nil, "%s has no executable; a part must say which program it is", p.Name)
	case !filepath.IsAbs(p.Executable):
		c.fault(nil, "%s: executable %q is not an absolute path", p.Name, p.Executable)
	}
	c.cpus(p.Name, p.CPUs)
	total := 0
	for i := range p.Args {
		o := &p.Args[i]
		if o.List && o.Value == "" && len(o.Properties) == 0 {
			c.fault(o.Origin, "%s: %s has neither a value nor properties; leave the option out (None)", p.Name, o.Flag)
		}
		size := o.size()
		total += size + len(o.Flag)
		if o.List && misread(o.Value) {
			c.fault(o.Origin, "%s: the value %q would be read as a property, because of the equals sign; give it with "+
				"its name, as a property", p.Name, o.Flag+" "+o.Value)
		}
		if o.hasNUL() {
			c.fault(o.Origin, "%s: %s contains a NUL byte: %q", p.Name, o.Flag, o.Words(symbolic))
		}
		if o.broken() {
			c.fault(o.Origin, "%s: %s is not UTF-8: %q", p.Name, o.Flag, o.Words(symbolic))
		}
		if size > MaxWord || len(o.Flag) > MaxWord {
			c.fault(o.Origin, "%s: %.40s is %d bytes long, Linux allows %d for one argument",
				p.Name, o.Flag, max(size, len(o.Flag)), MaxWord)
		}
	}
	if total > MaxArgv {
		c.fault(nil, "%s: the arguments take %d bytes, at most %d are allowed", p.Name, total, MaxArgv)
	}
	for _, a := range p.Access {
		if !filepath.IsAbs(a.Path) || filepath.Clean(a.Path) != a.Path || unprintable(a.Path) {
			c.fault(a.Origin, "%s: access to %q: want an absolute path without . and ..", p.Name, a.Path)
		}
	}
	for _, v := range p.Env {
		if v.Name == "" || v.Name[0] <= '9' || strings.Trim(v.Name, variableBytes) != "" ||
			strings.IndexByte(v.Value, 0) >= 0 {
			c.fault(nil, "%s: environment variable %q=%q cannot be set; a name has letters, digits and _",
				p.Name, v.Name, v.Value)
		}
	}
}

// variableBytes are those that a shell takes in the name of a variable.
const variableBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789"

// roles checks that the role of the TPM has one helper.
func (c *checker) roles() {
	users := map[string]string{}
	for _, h := range c.plan.Helpers {
		if other := users[h.Role]; other != "" && h.Role == RoleTPM {
			c.fault(nil, "the helpers %s and %s both have the role %s; a machine has one", other, h.Name, h.Role)
		}
		users[h.Role] = h.Name
	}
}

// misread says that QEMU takes the first value of a list for a property: it
// reads a name up to the first equals sign, unless there is a comma before
// (util/qemu-option.c, get_opt_name_value).
func misread(value string) bool {
	i := strings.IndexAny(value, "=,")
	return i >= 0 && value[i] == '='
}

// unprintable says that a name would break the line that it is shown in.
func unprintable(name string) bool {
	return printable.Line(name) != name
}

// descriptors checks that each descriptor is made once and used once.
func (c *checker) descriptors() {
	made := map[string]Origin{}
	add := func(name string, origin Origin) {
		if before, ok := made[name]; ok {
			c.fault(origin, "descriptor %q is defined twice, first at %s", name, before)
			return
		}
		made[name] = origin
	}
	for _, t := range c.plan.Taps {
		if t.Queues < 0 || t.Queues > maxQueues {
			c.fault(t.Origin, "tap %q: queues = %d, want 1 to %d", t.Name, t.Queues, maxQueues)
			t.Queues = 1
		}
		for i := range max(t.Queues, 1) {
			add(Queue(t.Name, i), t.Origin)
		}
		if t.Name == "" || len(t.Name) > maxIfname || strings.ContainsAny(t.Name, "/ ") || unprintable(t.Name) {
			c.fault(t.Origin, "tap %q: the name of an interface has 1 to %d bytes, no slash and no blank",
				t.Name, maxIfname)
		}
	}
	for _, l := range c.plan.Listeners {
		add(l.Name, l.Origin)
		add(Client(l.Name), l.Origin)
		if unprintable(l.Name) {
			c.fault(l.Origin, "listener %q: a name has printable characters only", l.Name)
		}
	}
	users := map[string]string{}
	for _, p := range c.plan.Processes() {
		for _, name := range p.Descriptors() {
			if _, ok := made[name]; !ok {
				c.fault(nil, "%s wants descriptor %q, but no part has a tap or a listener of that name", p.Name, name)
			}
			if other, ok := users[name]; ok {
				c.fault(made[name], "descriptor %q is used by %s and by %s", name, other, p.Name)
			}
			users[name] = p.Name
		}
	}
	for _, t := range c.plan.Taps {
		if users[t.Name] == "" {
			c.fault(t.Origin, "tap %q is not used by any option; pass it as a property: fd = the tap", t.Name)
		}
	}
	for _, l := range c.plan.Listeners {
		if users[l.Name] == "" {
			c.fault(l.Origin, "listener %q is not used by any option; pass it as a property: fd = the listener", l.Name)
		}
	}
}

func (c *checker) define(o *Option) {
	known, id := qemuopt.Flag(o.Flag), o.ID()
	if known == nil || known.Makes == "" || id == "" {
		return
	}
	kind := known.Makes
	if before, ok := c.defined[thing{kind, id}]; ok {
		c.fault(o.Origin, "%s: the %s %q is already defined at %s", o.Flag, kind, id, before)
		return
	}
	c.defined[thing{kind, id}] = o.Origin
}

// files checks that what is copied can't be something else.
func (c *checker) files() {
	for _, f := range c.plan.Files {
		for _, path := range []string{f.From, f.To} {
			if !filepath.IsAbs(path) || unprintable(path) {
				c.fault(f.Origin, "copy_once: %q is not an absolute path of printable characters", path)
			}
		}
		if strings.Contains(f.Kind, "/") || unprintable(f.Kind) {
			c.fault(f.Origin, "copy_once: kind = %q must have no slash and only printable characters: it becomes part of "+
				"a file name", f.Kind)
		}
	}
}

// once checks that an option is given once of which QEMU takes the last.
func (c *checker) once(options []Option) {
	first := map[string]*Option{}
	for i := range options {
		o := &options[i]
		known := qemuopt.Flag(o.Flag)
		if known == nil || !known.Once {
			continue
		}
		if before := first[known.Flag]; before != nil {
			c.fault(o.Origin, "%s is given a second time, first at %s; QEMU would take the last: put it in the place of the "+
				"first, replace(part, option(…)), or replace(part, machine = …)", o.Flag, before.Origin)
			continue
		}
		first[known.Flag] = o
	}
}

func (c *checker) own(o *Option) {
	toChardev := []string{"-serial", "-parallel", "-debugcon", "-virtioconsole"}
	if slices.Contains(toChardev, "-"+strings.TrimLeft(o.Flag, "-")) && strings.HasPrefix(o.Value, "mon:") {
		c.fault(o.Origin, "%s %s: mon: attaches a second monitor; the runner makes the monitor by itself", o.Flag, o.Value)
	}
	if known := qemuopt.Flag(o.Flag); known != nil && known.Own != "" {
		c.fault(o.Origin, "%s cannot be used by a VM type: %s", o.Flag, known.Own)
	}
	if !strings.HasPrefix(o.Flag, "-") {
		c.fault(o.Origin, "%q is not an option of QEMU: it must start with a dash", o.Flag)
	}
}

// references checks that what an option names by its id is there.
func (c *checker) references(o *Option) {
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
			c.fault(o.Origin, "%s %s: %s=%s, but there is no %s of that name", o.Flag, o.Value, p.Key, p.Value, kind)
		}
	}
}

func (c *checker) sockets() {
	users := map[string]string{}
	check := func(path, what string, origin Origin) {
		if len(path) > MaxSocketPath {
			c.fault(origin, "socket %s (%s): the path has %d bytes, unix sockets allow %d; use a shorter runtimeDir",
				path, what, len(path), MaxSocketPath)
		}
		if other, ok := users[path]; ok {
			c.fault(origin, "socket %s is meant for %s and for %s", path, other, what)
		}
		users[path] = what
	}
	for _, l := range c.plan.Listeners {
		check(l.Path, l.Name, l.Origin)
	}
	for _, s := range c.plan.Sockets {
		check(s.Path, s.Role, nil)
	}
	for _, o := range c.plan.QEMU.options() {
		if path, ok := o.Get("path"); ok && o.Flag == "-chardev" && o.Value == "socket" && len(path) > MaxSocketPath {
			c.fault(o.Origin, "-chardev socket: the path %s has %d bytes, unix sockets allow %d",
				path, len(path), MaxSocketPath)
		}
	}
}

// rules checks that what a rule names is there to be changed.
func (c *checker) rules() {
	device := func(kind, id string) {
		if _, ok := c.defined[thing{qemuopt.DeviceID, id}]; !ok {
			c.fault(nil, "hotplug.%s: there is no device with the id %q", kind, id)
		}
	}
	seen := map[string]bool{}
	var memory, affinity, disks Rule
	for _, r := range c.plan.Rules {
		if key := r.String(); seen[key] {
			c.fault(nil, "hotplug.%s is given twice: %s", r.Kind(), key)
		} else {
			seen[key] = true
		}
		switch r := r.(type) {
		case CPUs:
			if strings.Count(r.ID, "%d") != 1 || strings.Count(r.ID, "%") != 1 {
				c.fault(nil, "hotplug.cpus: id = %q must contain one %%d, for the number of the CPU", r.ID)
			}
			if r.Boot < 1 || r.Maximum < r.Boot {
				c.fault(nil, "hotplug.cpus: boot = %d, maximum = %d; want 1 <= boot <= maximum", r.Boot, r.Maximum)
			}
		case Balloon:
			device("balloon", r.Device)
			c.onlyOne(r, &memory, "would both follow vm.currentRam")
		case Memory:
			device("memory", r.Device)
			c.onlyOne(r, &memory, "would both follow vm.currentRam")
			if r.Base < 1 || r.Maximum < r.Base || r.Block < 1 {
				c.fault(nil, "hotplug.memory: base = %d, maximum = %d, block = %d; want 1 <= base <= maximum and a "+
					"block", r.Base, r.Maximum, r.Block)
			}
		case Medium:
			device("medium", r.Device)
		case Disk:
			device("disk", r.Device)
		case Disks:
			c.pluggable(r, device)
			c.onlyOne(r, &disks, "would both attach the drives")
		case Affinity:
			c.affinity(r)
			c.onlyOne(r, &affinity, "would both place the guest's CPUs")
		case Ports:
			if _, ok := c.defined[thing{qemuopt.Netdev, r.Netdev}]; !ok {
				c.fault(nil, "hotplug.ports: there is no network backend with the id %q", r.Netdev)
			}
		case Password:
			if r.Protocol != "spice" && r.Protocol != "vnc" {
				c.fault(nil, "hotplug.password: protocol = %q, want spice or vnc", r.Protocol)
			}
		}
	}
}

// pluggable checks that there is what disks and CD drives are plugged into.
func (c *checker) pluggable(r Disks, device func(kind, id string)) {
	for _, bus := range r.Buses {
		device("disks", bus)
	}
	if r.Driver == "" || len(r.Buses) < 1 || len(r.Buses) > MaxPluggedDisks {
		c.fault(nil, "hotplug.disks: driver = %q and %d buses; want a driver and 1 to %d buses", r.Driver, len(r.Buses),
			MaxPluggedDisks)
	}
	controller, _, isBus := strings.Cut(r.CDBus, ".")
	switch {
	case r.CDDriver == "" && r.CDBus+r.CDHolder == "":
	case r.CDDriver == "" || !isBus:
		c.fault(nil, "hotplug.disks: cd_driver = %q, cd_bus = %q; want a driver and a bus, such as usb.0", r.CDDriver, r.CDBus)
	default:
		device("disks", controller)
	}
}

// onlyOne refuses a second rule that follows what another one follows already.
func (c *checker) onlyOne(r Rule, first *Rule, both string) {
	if *first != nil {
		c.fault(nil, "%s and %s %s; a machine can have one of them", *first, r, both)
	}
	*first = r
}
