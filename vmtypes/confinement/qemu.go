package confinement

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// qemu returns what the machine itself may use.
func qemu(p *plan.Plan, facts Facts) Domain {
	r := &rules{}
	r.program(&p.QEMU)
	r.because("QEMU's own settings", nil)
	r.add(Read, "/etc/qemu", "/etc/sasl2/qemu.conf")
	args := make([]plan.Option, len(p.QEMU.Args))
	overlays := map[string]bool{}
	for i := range args {
		args[i] = p.QEMU.Args[i].Structured()
		if node := overlay(&args[i]); node != "" {
			overlays[node] = true
		}
	}
	guarded := false // a guard of connections is needed in any case
	for i := range args {
		o := &args[i]
		r.option(&p.QEMU.Args[i])
		r.implied(o)
		r.files(o)
		if overlays[o.ID()] && facts.Bases != nil {
			r.bases(o, facts.Bases)
		}
		r.network(o)
		if !facts.HostLoopback && isUserNetwork(o) {
			r.add(Except, Loopback)
			guarded = true
		}
	}
	for _, rule := range p.Rules {
		switch rule := rule.(type) {
		case plan.Medium:
			r.because("the medium in "+rule.Device+" can be changed", nil)
			r.add(Read, facts.Images())
			if file := facts.Media[rule.Drive]; strings.HasPrefix(file, "/") {
				r.add(Read, facts.folderOf(file))
			}
			r.add(Connect, AnyPort) // it may be at a URL
			if guarded || strings.Contains(facts.Media[rule.Drive], "://") {
				r.add(Except, Internal)
			}
			r.add(Read, strings.Fields(resolver)...)
		case plan.Ports:
			r.because("the ports of "+rule.Netdev+" can be changed", nil)
			r.add(Listen, AnyPort) // docs/decisions/0068-ports.md
		}
	}
	r.nbd(facts.NBD)
	if facts.Copies != "" {
		r.because("disks are copied to where the guest moves", nil)
		r.add(Reach, facts.Copies)
	}
	return Domain{
		Process: p.QEMU.Name, Rules: sorted(r.list), pod: facts.Pod,
		noAttributes: !slices.ContainsFunc(args, sharesFiles),
	}
}

// sharesFiles reports whether QEMU changes modes, owners and dates of files for an option, or watches folders.
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

// nbd adds what drives of NBD servers need. QEMU looks the server's name up again when it has lost it.
func (r *rules) nbd(use NBD) {
	if len(use.Ports) == 0 && !use.AnyPort {
		return
	}
	r.because("drives of NBD servers are attached", nil)
	r.add(Read, use.Folders...)
	r.add(Read, strings.Fields(resolver)...)
	for _, port := range use.Ports {
		r.add(Connect, strconv.Itoa(int(port)))
	}
	if use.AnyPort {
		r.add(Connect, AnyPort)
	}
}

// implied adds what an option uses and doesn't name.
func (r *rules) implied(o *plan.Option) {
	has := func(property string) bool {
		value, ok := o.Get(property)
		if !ok && property == "ifname" { // a tap that isn't given as a descriptor
			_, given := o.Get("fd")
			return !given
		}
		return ok && !off(value)
	}
	for _, i := range qemuopt.ImpliedBy(o.Flag, o.Backend(), has) {
		r.add(Read, strings.Fields(i.Reads)...)
		r.add(Write, strings.Fields(i.Writes)...)
		r.add(Capability, strings.Fields(i.Capabilities)...)
	}
}

// off reports whether a value is a switch that is off.
func off(value string) bool {
	on, known := qemuopt.Bool(value)
	return known && !on
}

// overlay returns the node that holds an image which may be an overlay of another; "" if
// the option makes none. What is raw never is, whatever the guest writes into it.
func overlay(o *plan.Option) string {
	switch o.Flag {
	case "-blockdev":
		driver, _ := o.Get("driver")
		file, ok := o.Get("file")
		if !ok {
			file = o.ID() // it has the file within
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

// bases adds what the image of an option is an overlay of.
func (r *rules) bases(o *plan.Option, of func(image string) []string) {
	why := r.why
	for _, p := range o.Properties {
		if isImage(o, p.Key) {
			for _, image := range named(p.Value) {
				r.because(why+", an overlay of it", r.origin)
				r.add(Read, of(image)...)
			}
		}
	}
	r.why = why
}

// files adds the files that an option names.
func (r *rules) files(o *plan.Option) {
	row := qemuopt.Find(o.Flag, o.Backend())
	r.socket(o)
	if !o.List {
		effect := qemuopt.Unknown
		if known := qemuopt.Flag(o.Flag); known != nil {
			effect = known.Text
		}
		r.file(effect, o.Value, false)
		return
	}
	readOnly := false
	for _, p := range o.Properties {
		readOnly = readOnly || (p.Key == "read-only" || p.Key == "readonly") && !off(p.Value)
	}
	for _, p := range o.Properties {
		switch {
		case p.Descriptor != "" || isAddress(o, p.Key):
			continue
		case isImage(o, p.Key):
			r.file(qemuopt.Opens, p.Value, readOnly)
		default:
			r.file(row.Property(p.Key).Host, p.Value, readOnly)
		}
	}
}

// isImage reports whether a property names the file of a block node.
func isImage(o *plan.Option, key string) bool {
	node := o.Flag == "-blockdev" || o.Flag == "-drive"
	return node && (key == "filename" || strings.HasSuffix(key, ".filename")) || o.Flag == "-drive" && key == "file"
}

// isAddress reports whether a property is where an option listens or connects.
func isAddress(o *plan.Option, key string) bool {
	switch o.Flag {
	case "-vnc":
		return key == "vnc"
	case "-spice":
		return key == "addr"
	}
	return qemuopt.Find(o.Flag, o.Backend()).Property(key).Host == qemuopt.Part
}

// file adds a file by what is done to it.
func (r *rules) file(effect qemuopt.Effect, name string, readOnly bool) {
	paths := named(name)
	if len(paths) == 0 {
		return
	}
	switch effect {
	case qemuopt.Reads, qemuopt.ReadsFolder, qemuopt.ReadsEach:
		r.add(Read, paths...)
	case qemuopt.Writes:
		r.add(Create, paths...)
	case qemuopt.WritesFolder, qemuopt.Unknown, qemuopt.Runs:
		r.add(Write, paths...)
	case qemuopt.Opens:
		r.add(map[bool]Kind{true: Read, false: Write}[readOnly], paths...)
	case qemuopt.Text, qemuopt.Alone, qemuopt.Part:
	}
}

// socket adds the unix socket of an option.
func (r *rules) socket(o *plan.Option) {
	name, server := "", true
	switch o.Flag {
	case "-vnc":
		name, _ = strings.CutPrefix(vncAddress(o), "unix:")
	case "-spice":
		name, _ = o.Get("addr")
	default:
		at, is, err := o.Endpoint()
		if !is || err != nil {
			return // QEMU refuses it
		}
		name, server = at.Path, at.Server
	}
	switch {
	case !strings.HasPrefix(name, "/"):
	case server:
		r.add(Sockets, path.Dir(name))
	default:
		r.add(Reach, name)
	}
}

// vncAddress returns the first value of -vnc.
func vncAddress(o *plan.Option) string {
	if where, ok := o.Get("vnc"); ok && o.Value == "" {
		return where
	}
	return o.Value
}

// network adds the TCP ports of an option, all of them if they are not known.
func (r *rules) network(o *plan.Option) {
	backend := o.Backend()
	switch {
	case qemuopt.Unjudged(o.Flag, backend):
		r.anywhere()
	case o.Flag == "-netdev" && backend == "user":
		r.add(Connect, AnyPort)
		r.add(Listen, FreePort) // for ports that are forwarded at run time
		r.add(Read, strings.Fields(resolver)...)
		for _, p := range o.Properties {
			if p.Key == "hostfwd" {
				r.forward(p.Value)
			}
		}
	case o.Flag == "-vnc":
		r.vnc(o)
	case o.Flag == "-spice":
		r.ports(o, "port", "tls-port")
	case o.Flag == "-chardev", o.Flag == "-netdev":
		r.stream(o)
	case o.Flag == "-blockdev" && qemuopt.Find("-blockdev", backend).Remote, o.Flag == "-drive" && remote(o),
		o.Flag == "-nic", (o.Flag == "-serial" || o.Flag == "-parallel") && strings.Contains(o.Value, ":") &&
			!strings.HasPrefix(o.Value, "chardev:"):
		r.anywhere()
	}
}

// isUserNetwork reports whether an option makes a network in which QEMU connects for the guest.
func isUserNetwork(o *plan.Option) bool {
	return (o.Flag == "-netdev" || o.Flag == "-nic" || o.Flag == "-net") && o.Backend() == "user"
}

func (r *rules) anywhere() {
	r.add(Listen, AnyPort)
	r.add(Connect, AnyPort)
	r.add(Read, strings.Fields(resolver)...)
}

// remote reports whether -drive names an image that isn't a file.
func remote(o *plan.Option) bool {
	driver, _ := o.Get("file.driver")
	file, _ := o.Get("file")
	return driver != "" && driver != "file" && driver != "host_device" && driver != "host_cdrom" ||
		file != "" && !strings.HasPrefix(file, "/")
}

// forward adds the port of protocol:address:port-address:port.
func (r *rules) forward(text string) {
	from, _, _ := strings.Cut(text, "-")
	if strings.HasPrefix(text, "tcp:") || strings.HasPrefix(text, ":") {
		r.listen(from[strings.LastIndex(from, ":")+1:])
	}
}

func (r *rules) vnc(o *plan.Option) {
	for _, p := range o.Properties {
		if p.Key == "to" || p.Key == "websocket" || p.Key == "reverse" {
			r.anywhere()
		}
	}
	where := vncAddress(o)
	if where == "none" || strings.HasPrefix(where, "unix:") {
		return
	}
	display, err := strconv.Atoi(where[strings.LastIndex(where, ":")+1:])
	if err != nil {
		r.add(Listen, AnyPort)
		return
	}
	r.listen(strconv.Itoa(firstVNCPort + display))
}

// firstVNCPort is that of display 0.
const firstVNCPort = 5900

func (r *rules) ports(o *plan.Option, keys ...string) {
	for _, p := range o.Properties {
		if slices.Contains(keys, p.Key) {
			r.listen(p.Value)
		}
	}
}

// stream adds the port of a character device or a network backend.
func (r *rules) stream(o *plan.Option) {
	at, is, err := o.Endpoint()
	port := at.Port
	switch {
	case !is || err != nil || port == "":
		return
	case at.LastPort != "":
		port = AnyPort
	}
	if at.Server {
		r.listen(port)
		return
	}
	r.add(Connect, port)
	r.add(Read, strings.Fields(resolver)...)
}

// privilegedPorts are those below which the kernel wants a capability to listen on.
const privilegedPorts = 1024

func (r *rules) listen(port string) {
	n, err := strconv.Atoi(port)
	if err != nil {
		port = AnyPort
	}
	if n < privilegedPorts {
		r.add(Capability, "net_bind_service")
	}
	r.add(Listen, port)
}
