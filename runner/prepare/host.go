package prepare

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"vmop/internal/readfile"
	"vmop/vmspec"
	"vmop/vmtypes"
)

// firmwareDirs are the directories of QEMU's firmware descriptors, the most specific first; see
// docs/interop/firmware.json of QEMU.
var firmwareDirs = []string{"/etc/qemu/firmware", "/usr/share/qemu/firmware"}

// ThisHost returns the current facts about this computer that VM types may know.
func ThisHost(dataDir, runtimeDir string) vmtypes.Host {
	return new(HostFacts).hostFor(dataDir, runtimeDir)
}

// HostFacts are the facts about this computer that were used for a plan. With them, the same plan can be computed
// again even if the computer has changed.
type HostFacts struct {
	KVM    *bool           `json:"kvm,omitempty"`
	NoKVM  string          `json:"noKVM,omitempty"` // why KVM is false
	Exists map[string]bool `json:"exists,omitempty"`
	// DirectIO reports by format and path whether images can be used without the page cache; nil if it is unknown.
	DirectIO map[string]*bool `json:"directIO,omitempty"`
	// AIO are the interfaces for asynchronous requests, by QEMU's program.
	AIO map[string][]string `json:"aio,omitempty"`
	// Bridge reports whether the default bridge exists, which a network card uses if it names no bridge.
	Bridge   *bool                        `json:"bridge,omitempty"`
	Modes    map[string]fs.FileMode       `json:"modes,omitempty"`
	Firmware []vmtypes.FirmwareDescriptor `json:"firmware"` // nil: not asked for
	// Topology is nil if it was not asked for.
	Topology *vmtypes.Topology `json:"topology,omitempty"`
	// Processors, PCI and Confidential contain only what was asked for. PCI is nil at the address of a missing device.
	Processors   []vmtypes.Processor           `json:"processors,omitempty"`
	PCI          map[string]*vmtypes.PCIDevice `json:"pci,omitempty"`
	Confidential *vmtypes.Confidential         `json:"confidential,omitempty"`
	// Copies are the kinds of the copies in the data directory, by their paths. GenerationID is the content of
	// generationFile; nil if it was not read.
	Copies       map[string]string `json:"copies,omitempty"`
	GenerationID *string           `json:"generationId,omitempty"`
	// CloudInit and Sysprep are digests of the guest's configuration data; empty without data.
	CloudInit string `json:"cloudInit,omitempty"`
	Sysprep   string `json:"sysprep,omitempty"`
}

// hostFor returns what VM types may know. It determines missing facts and stores them.
func (f *HostFacts) hostFor(dataDir, runtimeDir string) vmtypes.Host {
	if f.KVM == nil {
		f.NoKVM = whyNoKVM()
		f.KVM = new(f.NoKVM == "")
	}
	if f.Copies == nil {
		f.Copies = readKinds(dataDir)
	}
	if f.GenerationID == nil {
		f.GenerationID = new(readGeneration(dataDir))
	}
	return vmtypes.Host{
		DataDir: dataDir, RuntimeDir: runtimeDir, Copies: f.Copies, GenerationID: *f.GenerationID,
		Arch: qemuArch(runtime.GOARCH), KVM: *f.KVM, Exists: f.hasFile, Firmware: f.firmwareList,
		Topology: f.hostTopology, Processors: f.hostProcessors, PCI: f.hostPCI, Confidential: f.hostConfidential,
		DirectIO: f.hasDirectIO, AIO: f.aioInterfaces,
	}
}

// hasDefaultBridge reports whether the default bridge exists, which a network card uses if it names no bridge.
func (f *HostFacts) hasDefaultBridge() bool {
	if f.Bridge == nil {
		_, err := net.InterfaceByName(vmspec.DefaultBridge)
		f.Bridge = new(err == nil)
	}
	return *f.Bridge
}

func (f *HostFacts) hasFile(path string) bool {
	if known, ok := f.Exists[path]; ok {
		return known
	}
	if f.Exists == nil {
		f.Exists = map[string]bool{}
	}
	f.Exists[path] = fileExists(path)
	return f.Exists[path]
}

func (f *HostFacts) firmwareList() []vmtypes.FirmwareDescriptor {
	if f.Firmware == nil {
		f.Firmware = append([]vmtypes.FirmwareDescriptor{}, readFirmware(firmwareDirs)...)
	}
	return f.Firmware
}

// fileMode returns the mode of a path. It doesn't store errors, because they prevent a start.
func (f *HostFacts) fileMode(path string) (fs.FileMode, error) {
	if known, ok := f.Modes[path]; ok {
		return known, nil
	}
	mode, err := fileMode(path)
	if err == nil {
		if f.Modes == nil {
			f.Modes = map[string]fs.FileMode{}
		}
		f.Modes[path] = mode
	}
	return mode, err
}

// qemuArch returns QEMU's name of an architecture.
func qemuArch(goarch string) string {
	switch goarch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return goarch
}

// whyNoKVM returns the reason why guests can't be run with KVM, as far as it can be determined without running a
// guest; empty if they can.
//
// See docs/decisions/0011-auto-accelerator.md.
func whyNoKVM() string {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return noKVM(err)
	}
	defer f.Close()
	if why := CPUWithoutKVM(); why != "" {
		return "/dev/kvm opens, but " + why
	}
	// Other errors depend on the machine type that QEMU chooses, and are left to QEMU.
	vm, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), createVM, 0)
	switch errno {
	case 0:
		_ = unix.Close(int(vm))
	case unix.EBUSY:
		return "/dev/kvm opens, but another hypervisor, such as VirtualBox, uses the CPU: stop its VMs, then restart this VM"
	}
	return ""
}

// createVM is KVM_CREATE_VM of linux/kvm.h.
const createVM = 0xAE01

// CPUWithoutKVM returns the reason why this computer's CPUs run no ordinary guest with KVM, even if KVM exists.
// It is empty if they do, or if that is not known.
func CPUWithoutKVM() string {
	if alias, err := os.ReadFile(cpuAlias); err == nil && lacksVirtualization(string(alias)) {
		return "the CPU has neither vmx nor svm: a KVM that does without them stops ordinary guests with an internal error; if " +
			"this computer is a VM, enable nested virtualization in its hypervisor"
	}
	return ""
}

// noKVM returns the reason why /dev/kvm can't be opened, with the remedy.
func noKVM(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return err.Error() + ": add this user to the group kvm (usermod -aG kvm USER, then log in again)"
	}
	if errors.Is(err, fs.ErrNotExist) {
		return err.Error() + ": load the kernel's module (sudo modprobe kvm_intel, or kvm_amd), and enable virtualization " +
			"in the firmware or, if this computer is a VM, in its hypervisor"
	}
	return err.Error()
}

// cpuAlias contains the name that udev uses to load the kernel's modules for a CPU. It lists the CPU's features.
// /proc/cpuinfo also lists them, but kernels before 5.18 measure frequencies for 10 ms when it is opened.
const cpuAlias = "/sys/devices/system/cpu/modalias"

// lacksVirtualization reports whether an x86 CPU lacks hardware virtualization. The features have the numbers of
// the kernel's cpufeatures.h. kvm_intel and kvm_amd are loaded with the same numbers.
func lacksVirtualization(alias string) bool {
	_, features, known := strings.Cut(alias, ":feature:")
	const vmx, svm = ",0085,", ",00C2,"
	return known && strings.HasPrefix(alias, "cpu:type:x86,") && !strings.Contains(features, vmx) &&
		!strings.Contains(features, svm)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// descriptor is the used part of QEMU's firmware descriptor.
type descriptor struct {
	Description string
	Mapping     struct {
		Device     string
		Filename   string // of an image that is loaded into memory
		Executable struct{ Filename, Format string }
		Template   struct{ Filename, Format string } `json:"nvram-template"`
	}
	Targets []struct {
		Architecture string
		Machines     []string
	}
	Features []string
}

// readFirmware reads the descriptors of all directories in QEMU's order, by file name. A file in an earlier
// directory hides files of the same name, and an empty file hides them without a replacement.
func readFirmware(dirs []string) []vmtypes.FirmwareDescriptor {
	paths := map[string]string{}
	for i := len(dirs) - 1; i >= 0; i-- {
		files, err := filepath.Glob(filepath.Join(dirs[i], "*.json"))
		if err != nil {
			continue // only a malformed pattern is an error
		}
		for _, f := range files {
			paths[filepath.Base(f)] = f
		}
	}
	names := make([]string, 0, len(paths))
	for name := range paths {
		names = append(names, name)
	}
	sort.Strings(names)
	var list []vmtypes.FirmwareDescriptor
	for _, name := range names {
		if d, ok := readDescriptor(paths[name]); ok {
			list = append(list, d)
		}
	}
	return list
}

// readDescriptor returns false for files that don't describe firmware in flash or in memory.
func readDescriptor(path string) (out vmtypes.FirmwareDescriptor, ok bool) {
	data, err := readfile.ReadFile(path, LargestNote)
	var d descriptor
	if err != nil || json.Unmarshal(data, &d) != nil {
		return out, false
	}
	switch d.Mapping.Device {
	case "flash":
	case "memory":
		d.Mapping.Executable.Filename, d.Mapping.Executable.Format = d.Mapping.Filename, "raw"
	default:
		return out, false
	}
	out = vmtypes.FirmwareDescriptor{
		Description: d.Description, Features: d.Features,
		Executable: d.Mapping.Executable.Filename, Format: d.Mapping.Executable.Format,
		Vars: d.Mapping.Template.Filename, VarsFormat: d.Mapping.Template.Format,
	}
	for _, t := range d.Targets {
		out.Architecture = append(out.Architecture, t.Architecture)
		out.Machines = append(out.Machines, t.Machines...)
	}
	return out, true
}

// fileMode returns the mode of the file that a path leads to, for drives that name a resource.
func fileMode(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, errors.Unwrap(err)
	}
	return info.Mode(), nil
}
