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

	"vmop/internal/spelling"
)

// A Fault is an error in a vm section.
type Fault struct {
	// Path is the path of the field: "vm.network[0].mac".
	Path string
	// Message describes the error.
	Message string
	// Hint describes the correct value; it may be empty.
	Hint string
	// Also are the paths of other fields that are involved.
	Also []string
	// Key means that the key itself is wrong, not its value.
	Key bool
}

// String returns the error on one line: path, message and hint.
func (f Fault) String() string {
	text := f.Path + ": " + f.Message
	if f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	return text
}

// Limits of sensible values, far above common values.
const (
	longestName = 200  // bytes; the limit for the name of a directory is 255
	longestText = 8192 // bytes
	mostCPUs    = 4096 // QEMU's limit for q35
	mostOutputs = 16   // QEMU's limit for max_outputs of virtio-vga
	mostUSB     = 14   // the ports of the USB controller, except one for the tablet
	longestWait = Seconds(365 * 24 * 3600)
	firstVNC    = 5900 // the TCP port of display 0
	lastPort    = 65535
	nbdPort     = 10809 // registered for NBD with IANA
	// longestExport is the maximum length of an export's name, in bytes (the limit of QEMU and of the protocol).
	longestExport = 4096
	mostDevices   = 1000
)

// checker collects the errors in one spec.
type checker struct {
	spec   *Spec
	faults []Fault
}

// addFault adds an error and returns it, so that the caller can add a hint or related paths.
func (c *checker) addFault(path, format string, args ...any) *Fault {
	c.faults = append(c.faults, Fault{Path: path, Message: fmt.Sprintf(format, args...)})
	return &c.faults[len(c.faults)-1]
}

func (f *Fault) withHint(format string, args ...any) *Fault {
	f.Hint = fmt.Sprintf(format, args...)
	return f
}

func (f *Fault) withPaths(paths ...string) *Fault {
	f.Also = append(f.Also, paths...)
	return f
}

// Check returns all errors in a spec that WithDefaults returned, in the order of its fields. The result is empty
// if a VM type can use the spec. A uuid that is not known yet, and fields that derive from it, are not errors.
func (s Spec) Check() []Fault {
	c := &checker{spec: &s}
	c.checkTexts("vm", reflect.ValueOf(s))
	c.checkIdentity()
	c.checkMachine()
	c.checkCPUs()
	c.checkMemory()
	c.checkNetworks()
	c.checkDrives()
	c.checkDisplay()
	c.checkListeners()
	return c.faults
}

// checkTexts checks the rules for all texts: QEMU receives the texts on its command line, where NUL ends an argument,
// and people see them in logs.
func (c *checker) checkTexts(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		switch text := v.String(); {
		case len(text) > longestText:
			c.addFault(path, "has %d bytes", len(text)).withHint("the maximum is %d", longestText)
		case strings.IndexFunc(text, unicode.IsControl) >= 0 || !utf8.ValidString(text):
			c.addFault(path, "%s holds a control character or a line break", quoteClipped(text))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			c.checkTexts(path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.checkTexts(path+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			c.checkTexts(path+"."+v.Type().Field(i).Tag.Get("yaml"), v.Field(i))
		}
	default: // numbers, switches, and the options, which the VM type checks
	}
}

func (c *checker) checkIdentity() {
	name := c.spec.Name
	switch {
	case name == "":
		c.addFault("vm.name", "missing").withHint("every VM has a name")
	case len(name) > longestName:
		c.addFault("vm.name", "has %d bytes", len(name)).withHint("the maximum is %d", longestName)
	case name == "." || name == ".." || strings.Contains(name, "/"):
		c.addFault("vm.name", "%s can't name a directory", quoteClipped(name)).withHint("letters, digits, - and .")
	}
	if id := c.spec.UUID; id != "" && !ValidUUID(id) {
		c.addFault("vm.uuid", "%s is not a uuid",
			quoteClipped(id)).withHint("such as 2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21")
	}
}

func (c *checker) checkMachine() {
	s := c.spec
	if !isQEMUName(s.MachineType) {
		c.addFault("vm.machineType", "%s is not the name of a machine",
			quoteClipped(s.MachineType)).withHint("such as q35 or pc-q35-7.2; what belongs to a machine is set by the VM type")
	}
	c.oneOf("vm.accelerator", string(s.Accelerator))
	c.oneOf("vm.firmware", string(s.Firmware))
	if k := s.Kernel; k != nil && k.Image == "" {
		c.addFault("vm.kernel.image", "missing").withHint("initrd and commandLine are for the kernel in image")
	}
	if k := s.Kernel; k != nil && InitrdFault(k.Initrd) != "" {
		c.addFault("vm.kernel.initrd", "%s %s", quoteClipped(k.Initrd),
			InitrdFault(k.Initrd)).withHint("rename the file")
	}
	if s.RTCBase != "utc" && s.RTCBase != "localtime" && !isDate(s.RTCBase) {
		c.addFault("vm.rtcBase", "%s is not a time to start from",
			quoteClipped(s.RTCBase)).withHint("utc, localtime or a date such as 2026-03-01T12:00:00")
	}
	if s.RTCClock != "" {
		c.oneOf("vm.rtcClock", s.RTCClock)
	}
	if t := s.PowerdownTimeout; t != nil && (*t < 0 || *t > longestWait) {
		c.addFault("vm.powerdownTimeout", "%d seconds can't be waited", *t).withHint("0 to %d, a year", longestWait)
	}
}

func (c *checker) checkCPUs() {
	s := c.spec
	topology := []string{"vm.sockets", "vm.diesPerSocket", "vm.coresPerDie", "vm.threadsPerCore"}
	for i, n := range s.topologySizes() {
		if n < 0 || n > mostCPUs {
			c.addFault(topology[i], "can't be %d", n).withHint("1 to %d, or 0 to leave it to QEMU", mostCPUs)
			return
		}
	}
	if s.MaximumCPUs < 1 || s.MaximumCPUs > mostCPUs {
		c.addFault("vm.maximumCpus", "can't be %d", s.MaximumCPUs).withHint("1 to %d", mostCPUs).withPaths(topology...)
		return
	}
	if product := s.topologyProduct(); s.hasTopology() {
		shape := fmt.Sprintf("sockets × diesPerSocket × coresPerDie × threadsPerCore is %d", product)
		switch {
		case s.MaximumCPUs == product:
		case !s.leavesLevel():
			c.addFault("vm.maximumCpus", "is %d, but %s", s.MaximumCPUs,
				shape).withHint("leave maximumCpus out, or make both the same").withPaths(topology...)
		case s.MaximumCPUs%product != 0:
			c.addFault("vm.maximumCpus", "is %d, but no multiple of %d: %s", s.MaximumCPUs, product,
				shape).withHint("leave maximumCpus out, or give all levels").withPaths(topology...)
		}
	}
	if s.CurrentCPUs < 1 || s.CurrentCPUs > s.MaximumCPUs {
		c.addFault("vm.currentCpus", "can't be %d", s.CurrentCPUs).withHint("1 to %d, which is maximumCpus",
			s.MaximumCPUs).withPaths(append(topology, "vm.maximumCpus")...)
	}
}

func (c *checker) checkMemory() {
	s := c.spec
	c.wholeMiB("vm.maximumRam", s.MaximumRAM)
	if s.CurrentRAM != s.MaximumRAM {
		c.wholeMiB("vm.currentRam", s.CurrentRAM)
	}
	if s.CurrentRAM > s.MaximumRAM {
		c.addFault("vm.currentRam", "is %s, more than maximumRam, which is %s", s.CurrentRAM,
			s.MaximumRAM).withHint("raise maximumRam").withPaths("vm.maximumRam")
	}
}

func (c *checker) wholeMiB(path string, size Bytes) {
	switch {
	case size <= 0:
		c.addFault(path, "can't be %s", size).withHint("at least 1 MiB")
	case size < MiB:
		c.addFault(path, "is less than 1 MiB: %s", size).withHint("is a unit missing? such as 8 GiB")
	case size%MiB != 0:
		below := size / MiB
		c.addFault(path, "is not a whole number of MiB: %s", size).withHint("%d MiB or %d MiB are", below, below+1)
	}
}

func (s Spec) topologySizes() [4]int {
	return [4]int{s.Sockets, s.DiesPerSocket, s.CoresPerDie, s.ThreadsPerCore}
}

func (s Spec) hasTopology() bool { return s.topologySizes() != [4]int{} }

// leavesLevel reports whether QEMU computes a level of the topology, so that the product becomes MaximumCPUs. It
// does so for cores, sockets or threads, and assumes 1 for dies (machine_parse_smp_config, QEMU 6.2 and later).
func (s Spec) leavesLevel() bool {
	return s.Sockets == 0 || s.CoresPerDie == 0 || s.ThreadsPerCore == 0
}

// topologyProduct returns the number of CPUs in the topology. An unset level counts as 1. The result is at most
// mostCPUs+1.
func (s Spec) topologyProduct() int {
	product := 1
	for _, n := range s.topologySizes() {
		product = min(product*min(max(1, n), mostCPUs+1), mostCPUs+1)
	}
	return product
}

// oneOf requires that value is one of the choices of the key at path.
func (c *checker) oneOf(path, value string) bool {
	words := Choices(path)
	if slices.Contains(words, value) {
		return true
	}
	fault := c.addFault(path, "can't be %s", quoteClipped(value))
	if near := spelling.Nearest(value, words); near != "" {
		fault.withHint("did you mean %s? It can be %s", near, joinWithOr(words))
	} else {
		fault.withHint("it can be %s", joinWithOr(words))
	}
	return false
}

// joinWithOr returns "a, b or c".
func joinWithOr(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// isQEMUName reports whether s is a valid name of an object in QEMU, or empty.
func isQEMUName(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	}) < 0
}

// isDate reports whether s is a valid date for QEMU's -rtc base.
func isDate(s string) bool {
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04:05"} {
		if _, err := time.Parse(layout, s); err == nil {
			return true
		}
	}
	return false
}

func quoteClipped(s string) string { return strconv.Quote(clipQuoted(s)) }
