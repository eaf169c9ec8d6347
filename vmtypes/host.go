package vmtypes

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// A Host contains the facts that a VM type can use about the place where the VM runs. The same Host and the same vm
// section always result in the same plan.
type Host struct {
	// DataDir persists between runs; RuntimeDir exists during one run.
	DataDir, RuntimeDir string
	// Arch is the machine's architecture in QEMU's spelling: "x86_64".
	Arch string
	// KVM means that guests can use KVM, as far as this can be determined without running a guest.
	KVM bool
	// CloudInitImage is the path of the NoCloud image, or empty.
	CloudInitImage string
	// SysprepImage is the path of the image with answer files for Windows Setup, or empty.
	SysprepImage string
	// HasDisplayPassword means that a password for the display is configured.
	HasDisplayPassword bool
	// Machines maps machine aliases (q35) to the concrete versions (pc-q35-7.2) at this VM's first start.
	Machines map[string]string
	// Copies contains the kinds of files that earlier starts have copied, by their paths.
	Copies map[string]string
	// GenerationID identifies the state of the guest's disks (vmgenid): a new id means that they were restored. ""
	// stands for the VM's uuid.
	GenerationID string
	// Files restricts the files in vm.options.
	Files Files
	// Exists reports whether a file exists.
	Exists func(path string) bool `json:"-"`
	// DirectIO reports whether an image of a format can be used without the host's page cache (O_DIRECT). It returns
	// nil if that is unknown, and may be nil.
	DirectIO func(path, format string) *bool `json:"-"`
	// AIO returns the interfaces for asynchronous requests that QEMU's program can use on this host: threads, native
	// and io_uring. It returns an empty list if they are unknown, and may be nil.
	AIO func(program string) []string `json:"-"`
	// Firmware returns QEMU's firmware descriptors on this host, in QEMU's order of precedence; see
	// docs/interop/firmware.json of QEMU. It may be nil.
	Firmware func() []FirmwareDescriptor `json:"-"`
	// Topology returns the host's CPUs, memory nodes and huge pages; nil stands for SomeTopology.
	Topology func() Topology `json:"-"`
	// Processors returns the places of Topology.CPUs; nil stands for Topology.SeparateCores.
	Processors func() []Processor `json:"-"`
	// PCI returns the device with an address, or nil if the host has no such device. It may be nil.
	PCI func(address string) *PCIDevice `json:"-"`
	// Confidential returns the host's support for encrypted guests. It may be nil.
	Confidential func() Confidential `json:"-"`
}

// A FirmwareDescriptor contains the relevant part of QEMU's firmware descriptor. Firmware that QEMU
// loads into memory (-bios) has no variables.
type FirmwareDescriptor struct {
	Description  string
	Executable   string   // path of the read-only image
	Format       string   // of the executable: raw or qcow2
	Vars         string   // path of the template for the variables; "" if combined
	VarsFormat   string   // of the template
	Architecture []string // targets[].architecture
	Machines     []string // targets[].machines, patterns such as pc-q35-*
	Features     []string // secure-boot, enrolled-keys, requires-smm, …
}

// hostValue is the host argument in Starlark.
type hostValue struct{ host *Host }

var _ starlark.HasAttrs = hostValue{}

var errUnhashable = errors.New("unhashable")

func (hostValue) String() string        { return "host" }
func (hostValue) Type() string          { return "host" }
func (hostValue) Freeze()               {}
func (hostValue) Truth() starlark.Bool  { return true }
func (hostValue) Hash() (uint32, error) { return 0, errUnhashable }

// AttrNames implements starlark.HasAttrs.
func (hostValue) AttrNames() []string {
	return []string{
		"aio", "arch", "cloudInitImage", "copies", "cpus", "dataDir", "directIO", "exists", "find", "firmware",
		"generationId", "hasDisplayPassword", "hugePages", "kvm", "nodes", "pci", "processors", "runtimeDir", "sev",
		"sysprepImage", "tdx",
	}
}

// Attr implements starlark.HasAttrs.
func (h hostValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "arch":
		return starlark.String(h.host.Arch), nil
	case "cloudInitImage":
		return orNone(h.host.CloudInitImage), nil
	case "sysprepImage":
		return orNone(h.host.SysprepImage), nil
	case "copies":
		return h.copies()
	case "generationId":
		return orNone(h.host.GenerationID), nil
	case "dataDir":
		return starlark.String(h.host.DataDir), nil
	case "runtimeDir":
		return starlark.String(h.host.RuntimeDir), nil
	case "hasDisplayPassword":
		return starlark.Bool(h.host.HasDisplayPassword), nil
	case "kvm":
		return starlark.Bool(h.host.KVM), nil
	case "cpus":
		return new(records).recordOf("cpus", h.topologyOf().CPUs), nil
	case "nodes":
		return new(records).recordOf("nodes", h.topologyOf().Nodes), nil
	case "hugePages":
		return h.hugePages()
	case "processors":
		return new(records).recordOf("processors", h.processorsOf()), nil
	case "sev":
		return new(records).recordOf("sev", h.confidentialOf().SEV), nil
	case "tdx":
		return starlark.Bool(h.confidentialOf().TDX), nil
	case "pci":
		return starlark.NewBuiltin("host.pci", h.pciBuiltin), nil
	case "aio":
		return starlark.NewBuiltin("host.aio", h.aioBuiltin), nil
	case "directIO":
		return starlark.NewBuiltin("host.directIO", h.directIOBuiltin), nil
	case "exists":
		return starlark.NewBuiltin("host.exists", h.existsBuiltin), nil
	case "find":
		return starlark.NewBuiltin("host.find", h.findBuiltin), nil
	case "firmware":
		return starlark.NewBuiltin("host.firmware", h.firmwareBuiltin), nil
	}
	return nil, nil // the interpreter reports the attribute, with a suggestion
}

func orNone(s string) starlark.Value {
	if s == "" {
		return starlark.None
	}
	return starlark.String(s)
}

// copies returns the kinds of copied files, by their paths.
func (h hostValue) copies() (starlark.Value, error) {
	dict := starlark.NewDict(len(h.host.Copies))
	for _, path := range slices.Sorted(maps.Keys(h.host.Copies)) {
		if err := dict.SetKey(starlark.String(path), starlark.String(h.host.Copies[path])); err != nil {
			return nil, err
		}
	}
	dict.Freeze()
	return dict, nil
}

// existsBuiltin implements host.exists(path).
func (h hostValue) existsBuiltin(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var path string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "path", &path); err != nil {
		return nil, err
	}
	return starlark.Bool(h.host.Exists(path)), nil
}

// findBuiltin implements host.find(candidates, hint=""). It returns the first file that exists. Otherwise it fails with
// an error that contains all candidates and the hint.
func (h hostValue) findBuiltin(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var candidates starlark.Iterable
	var what string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "candidates", &candidates, "hint?", &what); err != nil {
		return nil, err
	}
	var tried []string
	iter := candidates.Iterate()
	defer iter.Done()
	var v starlark.Value
	for iter.Next(&v) {
		path, ok := starlark.AsString(v)
		if !ok {
			return nil, fmt.Errorf("%s: the candidates must be strings, not %s", b.Name(), withArticle(v))
		}
		if h.host.Exists(path) {
			return v, nil
		}
		tried = append(tried, path)
	}
	msg := "none of these files exists on this host: " + strings.Join(tried, ", ")
	if what != "" {
		msg += "; " + what
	}
	return nil, missingFileError(msg)
}

// A missingFileError means that a host lacks the files that a type needs. Like a call of fail, it refuses the VM.
type missingFileError string

// Error implements error.
func (e missingFileError) Error() string { return string(e) }

// firmwareBuiltin implements host.firmware(), a list of the descriptors as structs.
func (h hostValue) firmwareBuiltin(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := starlark.UnpackArgs(b.Name(), args, kwargs); err != nil {
		return nil, err
	}
	var list []starlark.Value
	if h.host.Firmware != nil {
		for _, d := range h.host.Firmware() {
			list = append(list, new(records).recordOf("firmware", d))
		}
	}
	return starlark.NewList(list), nil
}

// pinMachine replaces the alias of a machine type with the pinned version.
func (h *Host) pinMachine(p *plan.Plan) {
	version, ok := h.Machines[p.MachineType()]
	if !ok {
		return
	}
	m := p.Machine()
	*m = m.Structured()
	if m.Value != "" {
		m.Value = version
		return
	}
	for i := range m.Properties {
		if m.Properties[i].Key == "type" {
			m.Properties[i].Value = version
		}
	}
}
