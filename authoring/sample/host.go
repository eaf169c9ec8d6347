package sample

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vmop/internal/spelling"
	"vmop/vmtypes"
	"vmop/vmtypes/distribution"
)

// HostFacts describes a computer on which a VM could run. The zero value is a Debian 12 without KVM, with QEMU, OVMF
// and swtpm.
type HostFacts struct {
	// Files are the existing files. An item is a path, or the name of a distribution ("debian-12"), which stands for
	// the files of QEMU, OVMF and swtpm on it. The default is debian-12.
	Files []string `json:"files"`
	// DataDir and RuntimeDir are the VM's directories. The defaults are "/data" and "/run/vm".
	DataDir    string `json:"dataDir"`
	RuntimeDir string `json:"runtimeDir"`
	// Arch is the architecture of the host. The default is "x86_64".
	Arch string `json:"arch"`
	// KVM reports whether the host supports KVM.
	KVM bool `json:"kvm"`
	// DirectIO are the images that can be used without the host's page cache. Other images can't. By default, this is
	// unknown for all images.
	DirectIO []string `json:"directIO"`
	// AIO are the interfaces for asynchronous requests; unknown by default.
	AIO                []string                     `json:"aio"`
	CloudInitImage     string                       `json:"cloudInitImage"`
	SysprepImage       string                       `json:"sysprepImage"`
	HasDisplayPassword bool                         `json:"hasDisplayPassword"`
	Machines           map[string]string            `json:"machines"`
	Firmware           []vmtypes.FirmwareDescriptor `json:"firmware"`
	// CPUs, Nodes and HugePages describe the topology. The default is vmtypes.SomeTopology.
	CPUs      []int           `json:"cpus"`
	Nodes     []vmtypes.Node  `json:"nodes"`
	HugePages map[int64]int64 `json:"hugePages"`
	// Processors are the places of the CPUs. By default each CPU is a core, and each node is a socket with a cache.
	Processors []vmtypes.Processor `json:"processors"`
	// PCI are the PCI devices; the default is an empty list. Members of an IOMMU group without groupMembers are the
	// devices in PCI with the same group.
	PCI []vmtypes.PCIDevice `json:"pci"`
	// Confidential is the support for encrypted guests; by default the host does not support them.
	vmtypes.Confidential
	// Copies are the kinds of files that earlier starts have copied, by their paths. GenerationID is the id of the
	// guest's disks, see vmtypes.Host.
	Copies       map[string]string `json:"copies"`
	GenerationID string            `json:"generationId"`

	folder string // base of relative paths in vm.options: the folder of the configuration
	there  Finder // finds the actual host; nil means the host that these facts describe
}

// A Finder returns the actual host, for a VM with these directories.
type Finder func(dataDir, runtimeDir string) vmtypes.Host

// ParseHost reads facts as a JSON object.
func ParseHost(data []byte) (HostFacts, error) {
	h, fault := parseHost(data)
	if fault != nil {
		return HostFacts{}, errors.New("read host: " + fault.message)
	}
	return h, nil
}

// A hostFault is an error in the facts, with its place, counted from 1.
type hostFault struct {
	message      string
	line, column int
}

func parseHost(data []byte) (HostFacts, *hostFault) {
	var h HostFacts
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return HostFacts{}, explainJSON(err, data)
	}
	for _, d := range h.PCI {
		if meant, ok := vmtypes.PCIAddress(d.Address); !ok {
			message := fmt.Sprintf("pci: %q must be an address such as 0000:01:00.0", d.Address)
			if meant != "" {
				message = fmt.Sprintf("pci: %q is not an address (did you mean %s?)", d.Address, meant)
			}
			return HostFacts{}, faultAt(data, bytes.Index(data, []byte(strconv.Quote(d.Address))), message)
		}
	}
	for _, f := range h.Files {
		if distribution.Files(f) == nil && !strings.HasPrefix(f, "/") {
			message := fmt.Sprintf("files: %q is neither a path nor one of %s", f,
				strings.Join(distribution.Names(), ", "))
			return HostFacts{}, faultAt(data, bytes.Index(data, []byte(strconv.Quote(f))), message)
		}
	}
	return h, nil
}

func faultAt(data []byte, offset int, message string) *hostFault {
	before := string(data[:max(0, min(offset, len(data)))])
	return &hostFault{message, 1 + strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n')}
}

// explainJSON adds the place and a suggestion to the decoder's error.
func explainJSON(err error, data []byte) *hostFault {
	message := strings.TrimPrefix(err.Error(), "json: ")
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch quoted, unknown := strings.CutPrefix(message, "unknown field "); {
	case unknown:
		fields := []string{
			"files", "dataDir", "runtimeDir", "arch", "kvm", "cloudInitImage", "sysprepImage", "hasDisplayPassword",
			"machines", "firmware", "cpus", "nodes", "hugePages", "processors", "pci", "sev", "tdx", "directIO", "aio",
			"copies", "generationId",
		}
		if near := spelling.Nearest(strings.Trim(quoted, `"`), fields); near != "" {
			message += fmt.Sprintf(" (did you mean %s?)", near)
		} else {
			message += "; known are " + strings.Join(fields, ", ")
		}
		return faultAt(data, bytes.Index(data, []byte(quoted)), message)
	case errors.As(err, &kind):
		return faultAt(data, int(kind.Offset)-1,
			fmt.Sprintf("%s must be %s, not a %s", kind.Field, kindName(kind.Type), kind.Value))
	case errors.As(err, &syntax):
		return faultAt(data, int(syntax.Offset)-1, message)
	}
	return faultAt(data, len(data), "must be a JSON object: "+message)
}

// kindName returns the JSON description of the values of a Go type.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}

// Host returns the host that these facts describe.
func (h HostFacts) Host() vmtypes.Host {
	host := h.assumedHost()
	if h.there != nil {
		host = h.there(host.DataDir, host.RuntimeDir)
	}
	host.Copies, host.GenerationID = h.Copies, h.GenerationID
	host.Files, host.Machines = vmtypes.Files{Folder: h.folder}, h.Machines
	host.CloudInitImage, host.SysprepImage = h.CloudInitImage, h.SysprepImage
	host.HasDisplayPassword = h.HasDisplayPassword
	return host
}

// Missing returns Host, and a function to call after a type has refused the VM. If the last file that the type looked
// for is missing on the host, missed returns a message about the file, otherwise "".
func (h HostFacts) Missing() (host vmtypes.Host, missed func() string) {
	host = h.Host()
	exists, last := host.Exists, ""
	host.Exists = func(path string) bool {
		is := exists(path)
		if last = path; is {
			last = ""
		}
		return is
	}
	return host, func() string {
		switch {
		case last == "":
			return ""
		case h.there != nil:
			return last + " does not exist on this computer"
		case h.Files != nil:
			return last + " is not among the files of host.json"
		}
		text := last + " does not exist on Debian 12, which is assumed here; "
		if h.folder != "" {
			return text + "vmtype check tries a configuration on this computer"
		}
		return text + "a section host.json names other files"
	}
}

// assumedHost returns a host that consists only of these facts.
func (h HostFacts) assumedHost() vmtypes.Host {
	exists := map[string]bool{}
	files := h.Files
	if files == nil {
		files = []string{"debian-12"}
	}
	for _, f := range files {
		if strings.HasPrefix(f, "/") {
			exists[f] = true
		}
		for _, path := range distribution.Files(f) {
			exists[path] = true
		}
	}
	return vmtypes.Host{
		DataDir: textOr(h.DataDir, "/data"), RuntimeDir: textOr(h.RuntimeDir, "/run/vm"),
		Arch:     textOr(h.Arch, "x86_64"),
		KVM:      h.KVM,
		Exists:   func(path string) bool { return exists[path] },
		Firmware: func() []vmtypes.FirmwareDescriptor { return h.Firmware },
		Topology: h.hostTopology, Processors: h.hostProcessors, PCI: h.hostPCI,
		Confidential: func() vmtypes.Confidential { return h.Confidential },
		DirectIO:     h.hasDirectIO, AIO: func(string) []string { return h.AIO },
	}
}

// hostProcessors returns the places of the CPUs from the facts, or separate cores.
func (h HostFacts) hostProcessors() []vmtypes.Processor {
	if h.Processors != nil {
		return h.Processors
	}
	return h.hostTopology().SeparateCores()
}

// hostPCI returns the PCI device with an address, nil if the facts have none.
func (h HostFacts) hostPCI(address string) *vmtypes.PCIDevice {
	i := slices.IndexFunc(h.PCI, func(d vmtypes.PCIDevice) bool { return d.Address == address })
	if i < 0 {
		return nil
	}
	d := h.PCI[i]
	if d.IOMMUGroup != nil && d.GroupMembers == nil {
		for _, other := range h.PCI {
			if other.IOMMUGroup != nil && *other.IOMMUGroup == *d.IOMMUGroup {
				d.GroupMembers = append(d.GroupMembers, other.Address)
			}
		}
		slices.Sort(d.GroupMembers)
	}
	return &d
}

// hasDirectIO reports whether an image can be used without the host's page cache, or nil if that is unknown.
func (h HostFacts) hasDirectIO(path, _ string) *bool {
	if h.DirectIO == nil {
		return nil
	}
	return new(slices.Contains(h.DirectIO, path))
}

// hostTopology returns the topology from the facts, with defaults for missing values.
func (h HostFacts) hostTopology() vmtypes.Topology {
	t := vmtypes.SomeTopology()
	if h.CPUs != nil {
		t.CPUs, t.Nodes = h.CPUs, []vmtypes.Node{{CPUs: h.CPUs}}
	}
	if h.Nodes != nil {
		t.Nodes = slices.Clone(h.Nodes)
	}
	for i := range t.Nodes {
		t.Nodes[i].Memory = cmp.Or(t.Nodes[i].Memory, vmtypes.SomeMemory)
	}
	if h.HugePages != nil {
		t.HugePages = h.HugePages
	}
	return t
}

func textOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
