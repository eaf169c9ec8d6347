package sample

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
	KVM                bool                         `json:"kvm"`
	CloudInitImage     string                       `json:"cloudInitImage"`
	SysprepImage       string                       `json:"sysprepImage"`
	HasDisplayPassword bool                         `json:"hasDisplayPassword"`
	Machines           map[string]string            `json:"machines"`
	Firmware           []vmtypes.FirmwareDescriptor `json:"firmware"`
	// CPUs, Nodes and HugePages describe the topology. The default is vmtypes.SomeTopology.
	CPUs      []int           `json:"cpus"`
	Nodes     []vmtypes.Node  `json:"nodes"`
	HugePages map[int64]int64 `json:"hugePages"`

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
			"machines", "firmware", "cpus", "nodes", "hugePages",
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
		Topology: h.hostTopology,
	}
}

// hostTopology returns the topology from the facts, with defaults for missing values.
func (h HostFacts) hostTopology() vmtypes.Topology {
	t := vmtypes.SomeTopology()
	if h.CPUs != nil {
		t.CPUs, t.Nodes = h.CPUs, []vmtypes.Node{{CPUs: h.CPUs}}
	}
	if h.Nodes != nil {
		t.Nodes = h.Nodes
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
