package adopt

import (
	"slices"
	"strings"

	"vmop/authoring/compare"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A difference is something that the plan and the command line do not have in common.
type difference struct {
	// have is the option of the plan as the type wrote it, and want is the option of the command line with
	// the plan's ids. One of them can be nil.
	have, want *plan.Option
	// index is the index of have in the plan; -1 if have is nil.
	index int
	// key is the property; "" means the first value, or the whole option.
	key string
	// old and now are the values; nil means that there is none.
	old, now []string
	// from is the index of the option in the command line; -1 if want is nil.
	from int
	line int
	// kept is the reason why the type's value stays; "" if the plan should change.
	kept string
}

// differences compares a plan with a command line. missing are the indexes of options without a counterpart, and
// renamed are the options of the command line with the names that the plan uses.
func (w *wish) differences(
	p *plan.Plan, covered map[int]bool,
) (list []difference, missing []int, renamed []plan.Option) {
	have := make([]plan.Option, len(p.QEMU.Args))
	for i, o := range p.QEMU.Args {
		have[i] = o.Structured()
	}
	want := make([]plan.Option, len(w.wants))
	for i := range w.wants {
		want[i] = w.wants[i].Option
	}
	aligned := compare.Align(have, want)
	met := make([]bool, len(have))
	for i := range aligned.Options {
		h := aligned.Partner[i]
		if h >= 0 {
			met[h] = true
		}
		if covered[i] {
			continue
		}
		d := difference{want: &aligned.Options[i], from: i, line: w.wants[i].Line, index: -1}
		if h < 0 {
			missing = append(missing, i)
			d.kept = w.reasonAgainst(&aligned.Options[i])
			list = append(list, d)
			continue
		}
		d.have, d.index = &p.QEMU.Args[h], h
		list = append(list, w.propertyDifferences(d, &have[h])...)
	}
	w.keepDependents(list)
	for h := range have {
		if !met[h] && w.exact {
			list = append(list, difference{have: &p.QEMU.Args[h], index: h, from: -1})
		}
	}
	return list, missing, aligned.Options
}

// keepDependents gives a reason to each missing option that needs another missing option.
func (w *wish) keepDependents(list []difference) {
	for changed := true; changed; {
		changed = false
		for i := range list {
			d := &list[i]
			if d.have != nil || d.kept != "" {
				continue
			}
			for j := range list {
				other := &list[j]
				if other.have == nil && other.kept != "" && refers([]plan.Option{*d.want},
					[]plan.Option{*other.want}) &&
					qemuopt.FindDevice(other.want.Value).Noun != "a PCI port or bridge" {
					d.kept, changed = "needs "+optionOf(other.want)+", which is not in the proposal", true
					break
				}
			}
		}
	}
}

// propertyDifferences compares two options with the same role. structured is the option of the plan.
func (w *wish) propertyDifferences(d difference, structured *plan.Option) []difference {
	var list []difference
	if !sameValue(d.want.Flag, "", structured.Value, d.want.Value) &&
		compare.FullDriver(structured.Backend()) != compare.FullDriver(d.want.Backend()) {
		one := d
		one.old, one.now = []string{structured.Value}, []string{d.want.Value}
		one.kept = w.reasonToKeep(&one)
		list = append(list, one)
	}
	replaced := len(list) > 0 && d.want.Flag == "-device"
	for _, key := range propertyKeys(structured, d.want) {
		one := d
		one.key, one.old, one.now = key, valuesOf(structured, key), valuesOf(d.want, key)
		switch {
		case key == "id" || key == "node-name":
		case len(one.now) == 0 && (!w.exact || replaced):
		case !w.exact && d.want.Flag == "-blockdev" && len(one.old) == 0 && slices.Equal(one.now, []string{"off"}):
		case sameValues(d.want.Flag, key, one.old, one.now):
		default:
			one.kept = w.reasonToKeep(&one)
			list = append(list, one)
		}
	}
	return list
}

func propertyKeys(options ...*plan.Option) []string {
	var keys []string
	for _, o := range options {
		for _, p := range o.Properties {
			if !slices.Contains(keys, p.Key) {
				keys = append(keys, p.Key)
			}
		}
	}
	return keys
}

// valuesOf returns the values of a property, with the names of descriptors.
func valuesOf(o *plan.Option, key string) []string {
	var list []string
	for _, p := range o.Properties {
		switch {
		case p.Key != key:
		case p.Descriptor != "":
			list = append(list, descriptorName(p.Descriptor))
		default:
			list = append(list, p.Value)
		}
	}
	return list
}

func sameValues(flag, key string, a, b []string) bool {
	return slices.EqualFunc(a, b, func(x, y string) bool { return sameValue(flag, key, x, y) })
}

// sameValue reports whether QEMU reads two values in the same way.
func sameValue(flag, key, a, b string) bool {
	if a == b || key == "mac" && strings.EqualFold(a, b) {
		return true
	}
	if strings.HasPrefix(a, "<") && strings.Trim(b, "0123456789") == "" {
		return true // the number of a descriptor
	}
	if x, known := qemuopt.Bool(a); known {
		y, known := qemuopt.Bool(b)
		return known && x == y
	}
	if key == "hostfwd" {
		return strings.Replace(a, ":0.0.0.0:", "::", 1) == strings.Replace(b, ":0.0.0.0:", "::", 1)
	}
	if key == "addr" {
		return strings.TrimSuffix(normalNumber(a), ".0x0") == strings.TrimSuffix(normalNumber(b), ".0x0")
	}
	x, isNumber := qemuopt.Number(a)
	y, isNumberToo := qemuopt.Number(b)
	if isNumber && isNumberToo {
		return x == y
	}
	if flag != "-m" && key != "size" {
		return false
	}
	m, isMemory := qemuopt.Bytes(a)
	n, isMemoryToo := qemuopt.Bytes(b)
	return isMemory && isMemoryToo && m == n
}

// normalNumber returns an address with a prefix 0x.
func normalNumber(text string) string {
	slot, function, found := strings.Cut(strings.ToLower(text), ".")
	slot = "0x" + strings.TrimLeft(strings.TrimPrefix(slot, "0x"), "0")
	if !found {
		return slot
	}
	return slot + ".0x" + strings.TrimPrefix(function, "0x")
}

// hostSide are the backends that connect the machine to the host. The type or the configuration chooses them.
var hostSide = map[string]string{
	"-chardev":  "the runner connects it",
	"-netdev":   "the network of the host belongs to the configuration: vm.network",
	"-audiodev": "the sound leaves the machine over vm.display.spice",
	"-tpmdev":   "the runner starts the TPM: vm.useTpm",
}

// sizes are options that the runner changes while the VM is running.
var sizes = map[string]string{
	"-m":   "sizes belong to the configuration: vm.maximumRam and vm.currentRam",
	"-smp": "sizes belong to the configuration: vm.maximumCpus and vm.currentCpus",
}

// reasonToKeep returns why the type's value of a property stays, or "".
func (w *wish) reasonToKeep(d *difference) string {
	o := d.want
	if reason := sizes[o.Flag]; reason != "" {
		return reason
	}
	if o.Flag == "-object" && d.key == "size" && strings.HasPrefix(o.Value, "memory-backend-") && d.old != nil {
		return sizes["-m"]
	}
	if slices.ContainsFunc(d.now, isDescriptor) || slices.ContainsFunc(d.old, isDescriptor) && len(d.now) > 0 {
		return "the runner opens it"
	}
	if w.exact {
		return ""
	}
	switch {
	case hostSide[o.Flag] != "" && (d.key == "" || !slices.Contains([]string{"vhost", "queues", "net"}, d.key)):
		return hostSide[o.Flag]
	case o.Flag == "-device" && isPlace(d.key):
		return "the type places its devices"
	case fileEffect(o, d.key) || d.key == "filename" || d.key == "file.filename":
		return "names a file of another computer; the type or the configuration names it here"
	case d.key == "format" || d.key == "driver" && o.Flag == "-blockdev":
		return "the format of a disk belongs to the configuration: vm.drives[].format"
	case o.Flag == "-name" || o.Flag == "-uuid":
		return "belongs to the configuration: vm.name and vm.uuid"
	case o.Flag == "-display" || o.Flag == "-vnc" || o.Flag == "-spice":
		return "the servers of the screen belong to the configuration: vm.display"
	case o.Flag == "-sandbox":
		return "the type isolates QEMU"
	case o.Flag == "-machine" && slices.Contains([]string{
		"usb", "vmport", "dump-guest-core", "memory-backend",
		"pflash0", "pflash1",
	}, d.key):
		return "the type decides it"
	case o.Flag == "-accel" && d.key == "":
		return "belongs to the configuration: vm.accelerator"
	}
	return ""
}

func isDescriptor(text string) bool {
	return strings.HasPrefix(text, "<") && strings.HasSuffix(text, ">")
}

// reasonAgainst returns why an option that the plan lacks is not added, or "".
func (w *wish) reasonAgainst(o *plan.Option) string {
	if slices.ContainsFunc(o.Properties, func(p plan.Property) bool { return isDescriptor(p.Value) }) {
		return "the runner opens what is in < >; a type does it with tap or listen"
	}
	if w.exact {
		return ""
	}
	switch noun := qemuopt.FindDevice(o.Value).Noun; {
	case sizes[o.Flag] != "":
		return sizes[o.Flag]
	case o.Flag == "-chardev" && (o.Value == "stdio" || o.Value == "vc" || o.Value == "pty"):
		return "the runner has no terminal; use vm.serialConsole"
	case o.Flag == "-chardev" && !slices.Contains([]string{"spicevmc", "spiceport", "null", "ringbuf"}, o.Value):
		return "names a socket or a file of another computer; add it to the type with a path of this computer"
	case hostSide[o.Flag] != "" && o.Flag != "-chardev":
		return hostSide[o.Flag]
	case o.Flag == "-device" && noun == "a PCI port or bridge":
		return "the type places its devices"
	case o.Flag == "-device" && (noun == "a disk" || noun == "a CD drive"):
		return "drives belong to the configuration: vm.drives"
	case o.Flag == "-device" && noun == "a network card":
		return "network cards belong to the configuration: vm.network"
	case o.Flag == "-blockdev" || o.Flag == "-drive":
		return "drives belong to the configuration: vm.drives"
	case o.Flag == "-bios" || o.Flag == "-pflash":
		return "the firmware belongs to the configuration: vm.firmware"
	case o.Flag == "-vnc" || o.Flag == "-spice" || o.Flag == "-display":
		return "the servers of the screen belong to the configuration: vm.display"
	case o.Flag == "-kernel" || o.Flag == "-initrd" || o.Flag == "-append":
		return "the kernel belongs to the configuration: vm.kernel"
	case o.Flag == "-accel":
		return "belongs to the configuration: vm.accelerator"
	case o.Flag == "-object" && o.Value == "secret":
		return "a password of another program"
	}
	for _, p := range o.Properties {
		if o.Flag != "-device" && fileEffect(o, p.Key) && !strings.HasPrefix(p.Value, "/dev/") {
			return "names a file of another computer (" + p.Value + "); add it to the type with a path of this computer"
		}
	}
	if row := qemuopt.Flag(o.Flag); row != nil && o.Value != "" && !o.List && (row.Text == qemuopt.Reads ||
		row.Text == qemuopt.Writes || row.Text == qemuopt.ReadsEach) {
		return "names a file of another computer (" + o.Value + "); add it to the type with a path of this computer"
	}
	return ""
}

// fileEffect reports whether a property names a file of the host.
func fileEffect(o *plan.Option, key string) bool {
	row := qemuopt.Find(o.Flag, o.Backend())
	if row == nil || key == "" {
		return false
	}
	switch row.Property(key).Host {
	case qemuopt.Reads, qemuopt.Writes, qemuopt.ReadsFolder, qemuopt.WritesFolder, qemuopt.Opens, qemuopt.ReadsEach,
		qemuopt.Runs:
		return true
	}
	return false
}
