package confinement

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// qemuDomain returns QEMU's domain.
func qemuDomain(p *plan.Plan, facts Facts) Domain {
	r := &rules{}
	r.addProgram(&p.QEMU)
	r.setReason("QEMU's own settings", nil)
	r.addRules(Read, "/etc/qemu", "/etc/sasl2/qemu.conf")
	args := make([]plan.Option, len(p.QEMU.Args))
	overlays := map[string]bool{}
	for i := range args {
		args[i] = p.QEMU.Args[i].Structured()
		if node := overlayNode(&args[i]); node != "" {
			overlays[node] = true
		}
	}
	guarded := false // a rule denies loopback addresses
	for i := range args {
		o := &args[i]
		r.setOptionReason(&p.QEMU.Args[i])
		r.addImplied(o)
		r.addFiles(o)
		if overlays[o.ID()] && facts.Bases != nil {
			r.addBases(o, facts.Bases)
		}
		r.addNetwork(o)
		if !facts.HostLoopback && isUserNetwork(o) {
			r.addRules(Except, Loopback)
			guarded = true
		}
	}
	for _, rule := range p.Rules {
		switch rule := rule.(type) {
		case plan.Medium:
			r.setReason("the medium in "+rule.Device+" can be changed", nil)
			r.addRules(Read, facts.Images())
			if facts.Uploads != "" {
				r.addRules(Read, facts.Uploads)
			}
			if file := facts.Media[rule.Drive]; strings.HasPrefix(file, "/") {
				r.addRules(Read, facts.mediumFolder(file))
			}
			r.addRules(Connect, AnyPort) // the medium may be at a URL
			if guarded || strings.Contains(facts.Media[rule.Drive], "://") {
				r.addRules(Except, Internal)
			}
			r.addRules(Read, strings.Fields(resolver)...)
		case plan.Ports:
			r.setReason("the ports of "+rule.Netdev+" can be changed", nil)
			r.addRules(Listen, AnyPort) // docs/decisions/0068-ports.md
		}
	}
	r.addNBD(facts.NBD)
	if facts.Copies != "" {
		r.setReason("disks are copied to where the guest moves", nil)
		r.addRules(Reach, facts.Copies)
	}
	return Domain{
		Process: p.QEMU.Name, Rules: sortRules(r.list), pod: facts.Pod,
		noAttributes: !slices.ContainsFunc(args, sharesFiles),
	}
}

// sharesFiles reports whether an option makes QEMU change modes, owners and dates of files, or watch folders.
func sharesFiles(o plan.Option) bool {
	switch strings.TrimLeft(o.Flag, "-") {
	case "fsdev", "virtfs":
		return true
	case "device":
		return o.Backend() == "usb-mtp"
	case "object":
		return o.Backend() == "authz-list-file"
	}
	return false
}

// addNBD adds rules for drives of NBD servers. They include name resolution, because QEMU resolves the server's name
// again after a lost connection.
func (r *rules) addNBD(use NBD) {
	if len(use.Ports) == 0 && !use.AnyPort {
		return
	}
	r.setReason("drives of NBD servers are attached", nil)
	r.addRules(Read, use.Folders...)
	r.addRules(Read, strings.Fields(resolver)...)
	for _, port := range use.Ports {
		r.addRules(Connect, strconv.Itoa(int(port)))
	}
	if use.AnyPort {
		r.addRules(Connect, AnyPort)
	}
}

// addImplied adds what an option uses without naming it.
func (r *rules) addImplied(o *plan.Option) {
	has := func(property string) bool {
		value, ok := o.Get(property)
		if !ok && property == "ifname" { // a tap without a descriptor
			_, given := o.Get("fd")
			return !given
		}
		return ok && !isOff(value)
	}
	for _, i := range qemuopt.ImpliedBy(o.Flag, o.Backend(), has) {
		r.addRules(Read, strings.Fields(i.Reads)...)
		r.addRules(Write, strings.Fields(i.Writes)...)
		r.addRules(Capability, strings.Fields(i.Capabilities)...)
	}
}

// isOff reports whether a value is a switch with the value off.
func isOff(value string) bool {
	on, known := qemuopt.Bool(value)
	return known && !on
}

// overlayNode returns the node with an image that may be an overlay of another image; "" if there is no such node. A
// raw image is never an overlay, even if the guest writes such a header into it.
func overlayNode(o *plan.Option) string {
	switch o.Flag {
	case "-blockdev":
		driver, _ := o.Get("driver")
		file, ok := o.Get("file")
		if !ok {
			file = o.ID() // the option contains the file itself
		}
		if driver == "qcow2" {
			return file
		}
	case "-drive":
		if format, ok := o.Get("format"); !ok || format != "raw" {
			return o.ID()
		}
	}
	return ""
}

// addBases adds the files that an option's image depends on.
func (r *rules) addBases(o *plan.Option, of func(image string) []string) {
	why := r.why
	for _, p := range o.Properties {
		if isImage(o, p.Key) {
			for _, image := range pathsIn(p.Value) {
				r.setReason(why+", an overlay of it", r.origin)
				r.addRules(Read, of(image)...)
			}
		}
	}
	r.why = why
}

// addFiles adds the files that an option names.
func (r *rules) addFiles(o *plan.Option) {
	row := qemuopt.Find(o.Flag, o.Backend())
	r.addSocket(o)
	if !o.List {
		effect := qemuopt.Unknown
		if known := qemuopt.Flag(o.Flag); known != nil {
			effect = known.Text
		}
		r.addFile(effect, o.Value, false)
		return
	}
	readOnly := false
	for _, p := range o.Properties {
		readOnly = readOnly || (p.Key == "read-only" || p.Key == "readonly") && !isOff(p.Value)
	}
	for _, p := range o.Properties {
		switch {
		case p.Descriptor != "" || isAddress(o, p.Key):
			continue
		case isImage(o, p.Key):
			r.addFile(qemuopt.Opens, p.Value, readOnly)
		default:
			r.addFile(row.Property(p.Key).Host, p.Value, readOnly)
		}
	}
}

// isImage reports whether a property is the file of a block node.
func isImage(o *plan.Option, key string) bool {
	node := o.Flag == "-blockdev" || o.Flag == "-drive"
	return node && (key == "filename" || strings.HasSuffix(key, ".filename")) || o.Flag == "-drive" && key == "file"
}

// isAddress reports whether a property is part of an address for listening or connecting.
func isAddress(o *plan.Option, key string) bool {
	switch o.Flag {
	case "-vnc":
		return key == "vnc"
	case "-spice":
		return key == "addr"
	}
	return qemuopt.Find(o.Flag, o.Backend()).Property(key).Host == qemuopt.Part
}

// addFile adds a rule for a file, with the access that the option's effect requires.
func (r *rules) addFile(effect qemuopt.Effect, name string, readOnly bool) {
	paths := pathsIn(name)
	if len(paths) == 0 {
		return
	}
	switch effect {
	case qemuopt.Reads, qemuopt.ReadsFolder, qemuopt.ReadsEach:
		r.addRules(Read, paths...)
	case qemuopt.Writes:
		r.addRules(Create, paths...)
	case qemuopt.WritesFolder, qemuopt.Unknown, qemuopt.Runs:
		r.addRules(Write, paths...)
	case qemuopt.Opens:
		r.addRules(map[bool]Kind{true: Read, false: Write}[readOnly], paths...)
	case qemuopt.Text, qemuopt.Alone, qemuopt.Part:
	}
}

// addSocket adds the unix socket of an option.
func (r *rules) addSocket(o *plan.Option) {
	name, server := "", true
	switch o.Flag {
	case "-vnc":
		name, _ = strings.CutPrefix(vncAddress(o), "unix:")
	case "-spice":
		name, _ = o.Get("addr")
	default:
		at, is, err := o.Endpoint()
		if !is || err != nil {
			return // QEMU rejects it
		}
		name, server = at.Path, at.Server
	}
	switch {
	case !strings.HasPrefix(name, "/"):
	case server:
		r.addRules(Sockets, path.Dir(name))
	default:
		r.addRules(Reach, name)
	}
}

// vncAddress returns the first value of -vnc.
func vncAddress(o *plan.Option) string {
	if where, ok := o.Get("vnc"); ok && o.Value == "" {
		return where
	}
	return o.Value
}

// addNetwork adds the TCP ports of an option, or all ports if they are unknown.
func (r *rules) addNetwork(o *plan.Option) {
	backend := o.Backend()
	switch {
	case qemuopt.Unjudged(o.Flag, backend):
		r.addAllPorts()
	case o.Flag == "-netdev" && backend == "user":
		r.addRules(Connect, AnyPort)
		r.addRules(Listen, freePort) // for forwards that are added later
		r.addRules(Read, strings.Fields(resolver)...)
		for _, p := range o.Properties {
			if p.Key == "hostfwd" {
				r.addForward(p.Value)
			}
		}
	case o.Flag == "-vnc":
		r.addVNC(o)
	case o.Flag == "-spice":
		r.addPorts(o, "port", "tls-port")
	case o.Flag == "-chardev", o.Flag == "-netdev":
		r.addStream(o)
	case o.Flag == "-blockdev" && qemuopt.Find("-blockdev", backend).Remote, o.Flag == "-drive" && isRemoteDrive(o),
		o.Flag == "-nic", (o.Flag == "-serial" || o.Flag == "-parallel") && strings.Contains(o.Value, ":") &&
			!strings.HasPrefix(o.Value, "chardev:"):
		r.addAllPorts()
	}
}

// isUserNetwork reports whether an option creates a user network. There, QEMU connects on behalf of the guest.
func isUserNetwork(o *plan.Option) bool {
	return (o.Flag == "-netdev" || o.Flag == "-nic" || o.Flag == "-net") && o.Backend() == "user"
}

func (r *rules) addAllPorts() {
	r.addRules(Listen, AnyPort)
	r.addRules(Connect, AnyPort)
	r.addRules(Read, strings.Fields(resolver)...)
}

// isRemoteDrive reports whether -drive refers to an image other than a file.
func isRemoteDrive(o *plan.Option) bool {
	driver, _ := o.Get("file.driver")
	file, _ := o.Get("file")
	return driver != "" && driver != "file" && driver != "host_device" && driver != "host_cdrom" ||
		file != "" && !strings.HasPrefix(file, "/")
}

// addForward adds the host's port of protocol:address:port-address:port.
func (r *rules) addForward(text string) {
	from, _, _ := strings.Cut(text, "-")
	if strings.HasPrefix(text, "tcp:") || strings.HasPrefix(text, ":") {
		r.addListener(from[strings.LastIndex(from, ":")+1:])
	}
}

func (r *rules) addVNC(o *plan.Option) {
	for _, p := range o.Properties {
		if p.Key == "to" || p.Key == "websocket" || p.Key == "reverse" {
			r.addAllPorts()
		}
	}
	where := vncAddress(o)
	if where == "none" || strings.HasPrefix(where, "unix:") {
		return
	}
	display, err := strconv.Atoi(where[strings.LastIndex(where, ":")+1:])
	if err != nil {
		r.addRules(Listen, AnyPort)
		return
	}
	r.addListener(strconv.Itoa(firstVNCPort + display))
}

// firstVNCPort is the port of display 0.
const firstVNCPort = 5900

func (r *rules) addPorts(o *plan.Option, keys ...string) {
	for _, p := range o.Properties {
		if slices.Contains(keys, p.Key) {
			r.addListener(p.Value)
		}
	}
}

// addStream adds the port of a character device or a network backend.
func (r *rules) addStream(o *plan.Option) {
	at, is, err := o.Endpoint()
	port := at.Port
	switch {
	case !is || err != nil || port == "":
		return
	case at.LastPort != "":
		port = AnyPort
	}
	if at.Server {
		r.addListener(port)
		return
	}
	r.addRules(Connect, port)
	r.addRules(Read, strings.Fields(resolver)...)
}

// privilegedPorts is the limit of privileged ports: listening below it requires a capability.
const privilegedPorts = 1024

func (r *rules) addListener(port string) {
	n, err := strconv.Atoi(port)
	if err != nil {
		port = AnyPort
	}
	if n < privilegedPorts {
		r.addRules(Capability, "net_bind_service")
	}
	r.addRules(Listen, port)
}
