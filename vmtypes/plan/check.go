package plan

import (
	"fmt"
	"maps"
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
	// The number of errors with a suggestion.
	maxSuggestions = 10
	// The maximum number of clients to search servers for.
	maxClients = 64
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
	c := &checker{plan: p, defined: make(map[thing]Origin, len(p.QEMU.Args)), users: map[thing]*Option{}}
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
		if !isJSON(&p.QEMU.Args[i]) {
			c.checkID(&options[i])
			c.checkValues(&options[i])
		}
	}
	c.checkSingle(options)
	c.checkMemory(options)
	c.checkHardware(p.QEMU.Args, options)
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
	// users maps things that only one option can use to this option; nil is a thing for several options.
	users  map[thing]*Option
	faults []Fault
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
	c.checkCPUs(p.Name, nil, p.CPUs)
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
	names := slices.Collect(maps.Keys(made))
	for _, p := range c.plan.Processes() {
		for _, name := range p.Descriptors() {
			if _, ok := made[name]; !ok {
				c.addFault(p.originOfDescriptor(name), "%s wants descriptor %q, but no part has a tap or a listener of that "+
					"name%s", p.Name, name, c.didYouMean(name, names))
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
	if kind == qemuopt.Chardev && isShared(o) {
		c.users[thing{kind, id}] = nil
	}
}

// idBytes are the bytes of ids in QEMU (util/id.c, id_wellformed). The first byte is a letter.
const idBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._"

// idLetters is the number of letters in idBytes.
const idLetters = 52

// checkID checks the form of the id that an option defines. QEMU accepts any id for audio and for some networks.
func (c *checker) checkID(o *Option) {
	known, id := qemuopt.Flag(o.Flag), o.ID()
	if known == nil || id == "" {
		return
	}
	switch known.Makes {
	case "", qemuopt.AudioDev, qemuopt.Netdev:
		return
	}
	if strings.Trim(id, idBytes) != "" || strings.IndexByte(idBytes, id[0]) >= idLetters {
		c.addFault(o.Origin, "%s: %q cannot be an id: it must be a letter, followed by letters, digits, -, . and _", o.Flag, id)
	}
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

// toChardev contains the options that accept chardev: and the id of a character device.
var toChardev = []string{"-serial", "-parallel", "-debugcon", "-virtioconsole"}

func (c *checker) checkOwn(o *Option) {
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
