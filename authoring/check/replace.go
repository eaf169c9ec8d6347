package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A needsError means that a plan cannot be tested on this computer.
type needsError struct {
	What string
	// Program means that the missing thing is a program that the user can install.
	Program bool
}

// Error implements error.
func (n needsError) Error() string { return "it needs " + n.What }

// A replacement adapts a plan so that it can be tested anywhere.
type replacement struct {
	*trial
	args []plan.Option
	// from contains, for each option in args, the index of the plan's option.
	from []int
	hubs int
	// formats are the formats of protocol nodes, by name. flash are the nodes with the firmware.
	formats map[string]string
	flash   map[string]bool
	served  map[string]bool // sockets that a helper listens on
	// replaced describes replacements that the check cannot verify; see Result.
	replaced []string
}

// replaceOptions returns QEMU's options for a test in a folder, without the omitted options.
func (t *trial) replaceOptions() (*replacement, error) {
	p := t.plan
	r := &replacement{trial: t, formats: map[string]string{}, flash: map[string]bool{}, served: map[string]bool{}}
	for path := range t.answered {
		r.served[t.dir.substitutePath(path)] = true
	}
	for _, l := range p.Listeners {
		r.served[t.dir.substitutePath(l.Path)] = true
	}
	for _, h := range p.Helpers {
		r.served[t.dir.substitutePath(h.Ready)] = true
	}
	options := make([]plan.Option, len(p.QEMU.Args))
	for i, o := range p.QEMU.Args {
		options[i] = o.Structured()
		r.noteOption(options[i])
	}
	for i, o := range options {
		if t.without[i] {
			o = standIn(o)
		}
		changed, err := r.replaceOption(o)
		if err != nil {
			return nil, err
		}
		if changed.Flag != "" {
			r.args, r.from = append(r.args, changed), append(r.from, i)
		}
	}
	if t.unreserved {
		r.addUnreserved()
	}
	return r, nil
}

// noteOption records information that other options need.
func (r *replacement) noteOption(o plan.Option) {
	switch o.Flag {
	case "-machine":
		for _, key := range []string{"pflash0", "pflash1"} {
			if node, ok := o.Get(key); ok {
				r.flash[node] = true
			}
		}
	case "-blockdev":
		driver, _ := o.Get("driver")
		if file, ok := o.Get("file"); ok {
			r.formats[file] = driver
			if r.flash[o.ID()] {
				r.flash[file] = true
			}
		}
	}
}

// replaceOption returns the replacement of an option. A result without a flag means that the option is omitted.
func (r *replacement) replaceOption(o plan.Option) (plan.Option, error) {
	o.Properties = slices.Clone(o.Properties)
	switch o.Flag {
	case "-accel", "-machine", "-cpu", "-enable-kvm":
		return r.replaceAccelerator(o), nil
	case "-device":
		r.replaceThread(&o)
	case "-netdev":
		return r.replaceNetwork(o), nil
	case "-spice", "-vnc", "-display", "-audiodev", "-serial", "-parallel":
		return r.replaceDisplay(o), nil
	case "-chardev":
		return r.replaceChannel(o)
	case "-drive", "-blockdev":
		return r.replaceImage(o)
	case "-mem-prealloc", "-mem-path":
		r.replaced = append(r.replaced, strings.TrimSpace(o.Flag+" "+o.Value))
		return plan.Option{}, nil
	case "-daemonize", "-s", "-gdb":
		return plan.Option{}, nil
	case "-D":
		o.Value = r.dir.substitutePath(o.Value)
		return o, nil
	}
	if known := qemuopt.Flag(o.Flag); known != nil && (known.Text == qemuopt.Reads || known.Text == qemuopt.ReadsEach) {
		o.Value = r.dir.blobFile(o.Value, o.Flag)
		return o, nil
	}
	return r.replaceFiles(o)
}

// replaceAccelerator replaces KVM with TCG if KVM is unavailable.
func (r *replacement) replaceAccelerator(o plan.Option) plan.Option {
	if r.kvm {
		return o
	}
	switch {
	case o.Flag == "-enable-kvm":
		return plan.Option{}
	case o.Flag == "-accel" && o.Value == "kvm":
		return plan.Option{Flag: o.Flag, Value: "tcg", Origin: o.Origin}
	case o.Flag == "-cpu":
		words := slices.DeleteFunc(strings.Split(o.Value, ","), onlyWithKVM)
		if words[0] == "host" {
			words[0] = "max"
		}
		o.Value = strings.Join(words, ",")
	case o.Flag == "-machine":
		dropProperties(&o, "kernel-irqchip", "kernel_irqchip", "kvm-shadow-mem")
		if accel, ok := o.Get("accel"); ok && strings.HasPrefix(accel, "kvm") {
			setProperty(&o, "accel", "tcg")
		}
	}
	return o
}

// replaceThread removes the thread of a virtio-mmio device if KVM is unavailable: the thread needs ioeventfd, which
// this bus supports only with KVM (QEMU, hw/virtio/virtio-mmio.c).
func (r *replacement) replaceThread(o *plan.Option) {
	if r.withoutKVM && strings.HasPrefix(o.Value, "virtio-") && strings.HasSuffix(o.Value, "-device") {
		dropProperties(o, "iothread", "iothread-vq-mapping")
	}
}

// onlyWithKVM reports whether a CPU feature requires KVM.
func onlyWithKVM(feature string) bool {
	feature = strings.TrimLeft(strings.ReplaceAll(feature, "_", "-"), "+-")
	return strings.HasPrefix(feature, "hv-") || strings.HasPrefix(feature, "kvm-")
}

// replaceNetwork replaces a network with an isolated network.
func (r *replacement) replaceNetwork(o plan.Option) plan.Option {
	if o.Value == "user" {
		for i := range o.Properties {
			if p := &o.Properties[i]; p.Key == "hostfwd" {
				host, guest, _ := strings.Cut(p.Value, "-")
				p.Value = host[:strings.LastIndexByte(host, ':')+1] + "0-" + guest
			}
		}
		return o
	}
	if o.Value == "hubport" {
		return o
	}
	r.hubs++
	return plan.Option{Flag: o.Flag, Value: "hubport", List: true, Origin: o.Origin, Properties: []plan.Property{
		{Key: "id", Value: o.ID()}, {Key: "hubid", Value: strconv.Itoa(firstHub + r.hubs)},
	}}
}

// firstHub is a number that types are unlikely to use for a hub.
const firstHub = 9000

// replaceDisplay prevents a machine from listening on ports and opening windows.
func (r *replacement) replaceDisplay(o plan.Option) plan.Option {
	switch o.Flag {
	case "-display":
		o.Value, o.Properties = "none", nil
	case "-audiodev":
		if o.Value != "spice" && o.Value != "none" && o.Value != "wav" {
			o = plan.Option{
				Flag: o.Flag, Value: "none", List: true, Origin: o.Origin,
				Properties: []plan.Property{{Key: "id", Value: o.ID()}},
			}
		}
		if path, ok := o.Get("path"); ok {
			setProperty(&o, "path", r.dir.substitutePath(path))
		}
	case "-serial", "-parallel":
		if kind, _, _ := strings.Cut(o.Value,
			":"); slices.Contains([]string{"file", "unix", "tcp", "telnet", "udp", "pipe"}, kind) ||
			strings.HasPrefix(kind, "/") {
			o.Value = "null"
		}
	case "-spice":
		dropProperties(&o, "port", "tls-port", "addr", "unix", "x509-dir", "ipv4", "ipv6")
		o.Properties = append(o.Properties, plan.Property{Key: "unix", Value: "on"},
			plan.Property{Key: "addr", Value: r.dir.socketPath("spice")})
	case "-vnc":
		address, named := o.Get("vnc")
		if !named {
			address = o.Value
		}
		if address == "none" {
			return o
		}
		dropProperties(&o, "vnc", "to", "websocket", "reverse", "ipv4", "ipv6")
		o.List, o.Value = true, ""
		o.Properties = append([]plan.Property{{Key: "vnc", Value: "unix:" + r.dir.socketPath("vnc")}}, o.Properties...)
	}
	return o
}

// replaceChannel moves the files and sockets of a character device to the folder.
func (r *replacement) replaceChannel(o plan.Option) (plan.Option, error) {
	if log, ok := o.Get("logfile"); ok {
		setProperty(&o, "logfile", r.dir.substitutePath(log))
	}
	path, hasPath := o.Get("path")
	_, hasPort := o.Get("port")
	server, _ := o.Get("server")
	switch {
	case o.Value == "socket" && hasPort && server == "on":
		setProperty(&o, "port", "0")
		dropProperties(&o, "to")
	case o.Value == "socket" && hasPort:
		host, _ := o.Get("host")
		return o, needsError{What: fmt.Sprintf("a server on %s (-chardev %s)", host, o.ID())}
	case o.Value == "socket" && hasPath && server != "on" && !r.served[r.dir.substitutePath(path)]:
		return o, needsError{What: fmt.Sprintf("the program that listens on %s (-chardev %s)", path, o.ID())}
	case (o.Value == "serial" || o.Value == "parallel") && hasPath:
		return plan.Option{
			Flag: o.Flag, Value: "null", List: true, Origin: o.Origin,
			Properties: []plan.Property{{Key: "id", Value: o.ID()}},
		}, nil
	}
	if hasPath {
		setProperty(&o, "path", r.dir.substitutePath(path))
	}
	return o, nil
}

// replaceImage makes a drive or block node use an image in the folder.
func (r *replacement) replaceImage(o plan.Option) (plan.Option, error) {
	driver, _ := o.Get("driver")
	format := driver
	if o.Flag == "-drive" {
		format, _ = o.Get("format")
	}
	for _, prefix := range []string{"", "file."} {
		protocol, ok := o.Get(prefix + "driver")
		if !ok || !isRemoteDriver(protocol) && protocol != "host_device" {
			continue
		}
		// Remote images and devices become files.
		name, _ := o.Get(prefix + "filename")
		o.Properties = slices.DeleteFunc(o.Properties, func(p plan.Property) bool {
			key, below := strings.CutPrefix(p.Key, prefix)
			return below && !slices.Contains(strings.Fields("driver node-name id read-only readonly discard "+
				"cache.direct cache.no-flush auto-read-only detect-zeroes if media format file"), key) &&
				(prefix != "" || o.Flag == "-blockdev")
		})
		setProperty(&o, prefix+"driver", "file")
		o.Properties = append(o.Properties,
			plan.Property{Key: prefix + "filename", Value: "/" + strings.TrimPrefix(name, "/")})
	}
	for i := range o.Properties {
		p := &o.Properties[i]
		isFile := p.Key == "filename" || p.Key == "file.filename" || p.Key == "file" && o.Flag == "-drive"
		if !isFile || p.Value == "" {
			continue
		}
		wanted := image{path: p.Value, format: format, readOnly: isReadOnly(o)}
		if o.Flag == "-blockdev" && p.Key == "filename" {
			wanted.format = r.formats[o.ID()]
		}
		kind, _ := o.Get("if")
		if kind == "pflash" || r.flash[o.ID()] {
			wanted.size = flashSize(r.plan.QEMU.Executable)
		}
		var err error
		if p.Value, err = r.dir.emptyImage(wanted); err != nil {
			return o, err
		}
	}
	return o, nil
}

// isRemoteDriver reports whether a block driver uses the network.
func isRemoteDriver(driver string) bool {
	known := qemuopt.Exactly("-blockdev", driver)
	return known != nil && known.Remote
}

func isReadOnly(o plan.Option) bool {
	for _, key := range []string{"read-only", "readonly"} {
		if v, _ := o.Get(key); v == "on" {
			return true
		}
	}
	media, _ := o.Get("media")
	return media == "cdrom"
}

// flashSize returns the size of the firmware's flash in bytes on machines with a fixed size (QEMU, hw/arm/virt.c and
// hw/riscv/virt.c), otherwise 0.
func flashSize(executable string) int64 {
	switch base := filepath.Base(executable); {
	case strings.HasSuffix(base, "aarch64"), strings.HasSuffix(base, "-arm"):
		return 64 << 20
	case strings.Contains(base, "riscv"):
		return 32 << 20
	}
	return 0
}

// replaceFiles replaces the files that other options name.
func (r *replacement) replaceFiles(o plan.Option) (plan.Option, error) {
	if o.Flag == "-object" {
		r.replaceMemory(&o)
	}
	known := qemuopt.Find(o.Flag, o.Backend())
	for i := range o.Properties {
		p := &o.Properties[i]
		if !strings.HasPrefix(p.Value, "/") {
			continue
		}
		effect := known.Property(p.Key).Host
		var err error
		switch {
		case effect == qemuopt.ReadsFolder, effect == qemuopt.WritesFolder:
			p.Value, err = r.dir.emptyFolder(p.Value)
		case strings.HasPrefix(p.Value, "/dev/"):
		case effect == qemuopt.Reads, effect == qemuopt.ReadsEach:
			p.Value = r.dir.blobFile(p.Value, o.Flag)
		case effect == qemuopt.Writes:
			p.Value, err = r.dir.scratchFile(p.Value)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// standIn returns the replacement of a device of the host: a device without a function at the same address, or an empty
// option.
func standIn(o plan.Option) plan.Option {
	if !strings.Contains(o.Value, "pci") {
		return plan.Option{}
	}
	place := plan.Option{Flag: o.Flag, Value: "pci-testdev", List: true, Origin: o.Origin}
	for _, p := range o.Properties {
		if slices.Contains([]string{"id", "bus", "addr", "multifunction"}, p.Key) {
			place.Properties = append(place.Properties, p)
		}
	}
	return place
}

func setProperty(o *plan.Option, key, value string) {
	for i := range o.Properties {
		if o.Properties[i].Key == key {
			o.Properties[i].Value = value
		}
	}
}

func dropProperties(o *plan.Option, keys ...string) {
	o.Properties = slices.DeleteFunc(o.Properties, func(p plan.Property) bool { return slices.Contains(keys, p.Key) })
}

// isReadableFile reports whether a path is a readable regular file.
func isReadableFile(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	_ = file.Close() // nothing was read
	return true
}
