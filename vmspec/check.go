package vmspec

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"vmop/spelling"
)

// A Fault is something wrong in a vm section.
type Fault struct {
	// Path of the field: "vm.network[0].mac".
	Path string
	// Message says what is wrong with it.
	Message string
	// Hint says what would be right; may be empty.
	Hint string
	// Also are the paths of other fields that the judgement rests on.
	Also []string
	// Key says that the key itself is wrong, not its value.
	Key bool
}

// String returns the fault on one line: path, message and hint.
func (f Fault) String() string {
	text := f.Path + ": " + f.Message
	if f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	return text
}

// Bounds of what is sensible, far above what is usual.
const (
	longestName = 200  // bytes; the name of a directory has 255
	longestText = 8192 // bytes
	mostCPUs    = 4096 // QEMU's limit for q35
	mostOutputs = 16   // QEMU's limit for max_outputs of virtio-vga
	mostUSB     = 14   // ports of the USB controller, less one for the tablet
	longestWait = Seconds(365 * 24 * 3600)
	firstVNC    = 5900 // the TCP port of display 0
	lastPort    = 65535
	nbdPort     = 10809 // IANA's for NBD
	// longestExport is how long the name of an export may be, in bytes (QEMU's limit, and that
	// of the protocol).
	longestExport = 4096
	mostDevices   = 1000
)

// checker collects the faults of one spec.
type checker struct {
	spec   *Spec
	faults []Fault
}

// add notes a fault and returns it to have a hint or related paths added.
func (c *checker) add(path, format string, args ...any) *Fault {
	c.faults = append(c.faults, Fault{Path: path, Message: fmt.Sprintf(format, args...)})
	return &c.faults[len(c.faults)-1]
}

func (f *Fault) hint(format string, args ...any) *Fault {
	f.Hint = fmt.Sprintf(format, args...)
	return f
}

func (f *Fault) also(paths ...string) *Fault {
	f.Also = append(f.Also, paths...)
	return f
}

// Check returns all faults of a spec that WithDefaults returned, in the order
// of its fields; none if the spec can be given to a VM type. A uuid that is not
// known yet, and what derives from it, is no fault.
func (s Spec) Check() []Fault {
	c := &checker{spec: &s}
	c.texts("vm", reflect.ValueOf(s))
	c.identity()
	c.machine()
	c.cpus()
	c.memory()
	c.networks()
	c.drives()
	c.display()
	c.listeners()
	return c.faults
}

// texts finds what no text may hold, whatever it is for: QEMU takes it on its
// command line, where NUL ends an argument, and people see it in logs.
func (c *checker) texts(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		switch text := v.String(); {
		case len(text) > longestText:
			c.add(path, "has %d bytes", len(text)).hint("the most is %d", longestText)
		case strings.IndexFunc(text, unicode.IsControl) >= 0 || !utf8.ValidString(text):
			c.add(path, "%s holds a control character or a line break", quote(text))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			c.texts(path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.texts(path+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			c.texts(path+"."+v.Type().Field(i).Tag.Get("yaml"), v.Field(i))
		}
	default: // numbers, switches, and the options, which are the VM type's business
	}
}

func (c *checker) identity() {
	name := c.spec.Name
	switch {
	case name == "":
		c.add("vm.name", "missing").hint("every VM has a name")
	case len(name) > longestName:
		c.add("vm.name", "has %d bytes", len(name)).hint("the most is %d", longestName)
	case name == "." || name == ".." || strings.Contains(name, "/"):
		c.add("vm.name", "%s can't name a directory", quote(name)).hint("letters, digits, - and .")
	}
	if id := c.spec.UUID; id != "" && !ValidUUID(id) {
		c.add("vm.uuid", "%s is not a uuid", quote(id)).hint("such as 2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21")
	}
}

func (c *checker) machine() {
	s := c.spec
	if !isWord(s.MachineType) {
		c.add("vm.machineType", "%s is not the name of a machine",
			quote(s.MachineType)).hint("such as q35 or pc-q35-7.2; what belongs to a machine is set by the VM type")
	}
	c.oneOf("vm.accelerator", string(s.Accelerator))
	c.oneOf("vm.firmware", string(s.Firmware))
	if k := s.Kernel; k != nil && k.Image == "" {
		c.add("vm.kernel.image", "missing").hint("initrd and commandLine are for the kernel in image")
	}
	if k := s.Kernel; k != nil && InitrdFault(k.Initrd) != "" {
		c.add("vm.kernel.initrd", "%s %s", quote(k.Initrd), InitrdFault(k.Initrd)).hint("rename the file")
	}
	if s.RTCBase != "utc" && s.RTCBase != "localtime" && !isDate(s.RTCBase) {
		c.add("vm.rtcBase", "%s is not a time to start from",
			quote(s.RTCBase)).hint("utc, localtime or a date such as 2026-03-01T12:00:00")
	}
	c.oneOf("vm.rtcClock", string(s.RTCClock))
	if t := s.PowerdownTimeout; t != nil && (*t < 0 || *t > longestWait) {
		c.add("vm.powerdownTimeout", "%d seconds can't be waited", *t).hint("0 to %d, a year", longestWait)
	}
}

func (c *checker) cpus() {
	s := c.spec
	topology := []string{"vm.sockets", "vm.diesPerSocket", "vm.coresPerDie", "vm.threadsPerCore"}
	for i, n := range s.topology() {
		if n < 0 || n > mostCPUs {
			c.add(topology[i], "can't be %d", n).hint("1 to %d, or 0 to leave it to QEMU", mostCPUs)
			return
		}
	}
	if s.MaximumCPUs < 1 || s.MaximumCPUs > mostCPUs {
		c.add("vm.maximumCpus", "can't be %d", s.MaximumCPUs).hint("1 to %d", mostCPUs).also(topology...)
		return
	}
	if product := s.topologyProduct(); s.hasTopology() {
		shape := fmt.Sprintf("sockets × diesPerSocket × coresPerDie × threadsPerCore is %d", product)
		switch {
		case s.MaximumCPUs == product:
		case !s.leavesLevel():
			c.add("vm.maximumCpus", "is %d, but %s", s.MaximumCPUs,
				shape).hint("leave maximumCpus out, or make both the same").also(topology...)
		case s.MaximumCPUs%product != 0:
			c.add("vm.maximumCpus", "is %d, but no multiple of %d: %s", s.MaximumCPUs, product,
				shape).hint("leave maximumCpus out, or give all levels").also(topology...)
		}
	}
	if s.CurrentCPUs < 1 || s.CurrentCPUs > s.MaximumCPUs {
		c.add("vm.currentCpus", "can't be %d", s.CurrentCPUs).hint("1 to %d, which is maximumCpus",
			s.MaximumCPUs).also(append(topology, "vm.maximumCpus")...)
	}
}

func (c *checker) memory() {
	s := c.spec
	c.wholeMiB("vm.maximumRam", s.MaximumRAM)
	if s.CurrentRAM != s.MaximumRAM {
		c.wholeMiB("vm.currentRam", s.CurrentRAM)
	}
	if s.CurrentRAM > s.MaximumRAM {
		c.add("vm.currentRam", "is %s, more than maximumRam, which is %s", s.CurrentRAM,
			s.MaximumRAM).hint("raise maximumRam").also("vm.maximumRam")
	}
}

func (c *checker) wholeMiB(path string, size Bytes) {
	switch {
	case size <= 0:
		c.add(path, "can't be %s", size).hint("at least 1 MiB")
	case size < MiB:
		c.add(path, "is less than 1 MiB: %s", size).hint("is a unit missing? such as 8 GiB")
	case size%MiB != 0:
		below := size / MiB
		hint := fmt.Sprintf("%d MiB or %d MiB are", below, below+1)
		if size%1e9 == 0 { // the unit of disks' makers was meant to be that of memory
			hint = fmt.Sprintf("%d GiB is; so are %d MiB and %d MiB", size/1e9, below, below+1)
		}
		c.add(path, "is not a whole number of MiB: %s", size).hint("%s", hint)
	}
}

func (s Spec) topology() [4]int {
	return [4]int{s.Sockets, s.DiesPerSocket, s.CoresPerDie, s.ThreadsPerCore}
}

func (s Spec) hasTopology() bool { return s.topology() != [4]int{} }

// leavesLevel reports whether QEMU computes a level of the topology so that the
// product becomes MaximumCPUs; it does so for cores, sockets or threads, and
// takes dies for 1 (machine_parse_smp_config, QEMU 6.2 and later).
func (s Spec) leavesLevel() bool {
	return s.Sockets == 0 || s.CoresPerDie == 0 || s.ThreadsPerCore == 0
}

// topologyProduct is the number of CPUs of the topology; a level that is not
// given counts as 1. It stops just above mostCPUs.
func (s Spec) topologyProduct() int {
	product := 1
	for _, n := range s.topology() {
		product = min(product*min(max(1, n), mostCPUs+1), mostCPUs+1)
	}
	return product
}

// oneOf wants value among the words that the key at path can be.
func (c *checker) oneOf(path, value string) bool {
	words := Choices(path)
	if slices.Contains(words, value) {
		return true
	}
	fault := c.add(path, "can't be %s", quote(value))
	if near := spelling.Nearest(value, words); near != "" {
		fault.hint("did you mean %s? It can be %s", near, enumerate(words))
	} else {
		fault.hint("it can be %s", enumerate(words))
	}
	return false
}

// enumerate returns "a, b or c".
func enumerate(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// isWord reports whether s can be the name of something in QEMU, or is empty.
func isWord(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	}) < 0
}

// isDate reports whether s is a date as QEMU's -rtc base reads it.
func isDate(s string) bool {
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04:05"} {
		if _, err := time.Parse(layout, s); err == nil {
			return true
		}
	}
	return false
}

func quote(s string) string { return strconv.Quote(clip(s)) }
