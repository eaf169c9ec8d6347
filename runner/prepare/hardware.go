package prepare

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vmop/internal/readfile"
	"vmop/vmtypes"
)

// sysfs is the folder with the kernel's description of the hardware. Its files are read when a type asks for them.
//
// See docs/decisions/0200-facts-of-hardware.md.
const sysfs = "/sys"

// KeepHardware returns a function that gives a host the hardware facts of the VM's start, so that a change of the
// hardware, or of free resources, is not a pending change. Facts that no type asked for at the start are the current
// ones. It does not change the VM.
func (vm *VM) KeepHardware() func(host *vmtypes.Host) {
	f := HostFacts{
		Topology: vm.Facts.Topology, Processors: vm.Facts.Processors, PCI: maps.Clone(vm.Facts.PCI),
		Confidential: vm.Facts.Confidential,
	}
	return func(host *vmtypes.Host) {
		host.Topology, host.Processors, host.PCI, host.Confidential =
			f.hostTopology, f.hostProcessors, f.hostPCI, f.hostConfidential
	}
}

// hostProcessors returns the places of the CPUs of this computer. It reads them only if a type asks for them.
func (f *HostFacts) hostProcessors() []vmtypes.Processor {
	if f.Processors == nil {
		f.Processors = readProcessors(sysfs, f.hostTopology())
	}
	return f.Processors
}

// hostPCI returns the PCI device with a valid address, nil without one. It reads only the requested devices.
func (f *HostFacts) hostPCI(address string) *vmtypes.PCIDevice {
	known, ok := f.PCI[address]
	if !ok {
		known = readPCI(sysfs, address)
		if f.PCI == nil {
			f.PCI = map[string]*vmtypes.PCIDevice{}
		}
		f.PCI[address] = known
	}
	return known
}

// hostConfidential returns the support for encrypted guests. It reads it only if a type asks for it.
func (f *HostFacts) hostConfidential() vmtypes.Confidential {
	if f.Confidential == nil {
		f.Confidential = new(readConfidential(sysfs, readCPUID))
	}
	return *f.Confidential
}

// readProcessors reads the places of the CPUs of t. A CPU without a description is a separate core. A list of
// siblings describes several CPUs, so that the number of read files grows with the number of cores.
//
// Source: Documentation/ABI/stable/sysfs-devices-system-cpu of Linux.
func readProcessors(sysfs string, t vmtypes.Topology) []vmtypes.Processor {
	list := t.SeparateCores()
	cores, sockets, caches := map[int]int{}, map[int]int{}, map[int]int{}
	for i := range list {
		p := &list[i]
		folder := filepath.Join(sysfs, "devices/system/cpu/cpu"+strconv.Itoa(p.Number))
		topology := filepath.Join(folder, "topology")
		if _, known := cores[p.Number]; !known {
			shareUnit(cores, t.CPUs, readFact(topology, "thread_siblings_list"), p.Number)
		}
		if _, known := sockets[p.Number]; !known {
			socket, err := strconv.Atoi(readFact(topology, "physical_package_id"))
			if err != nil || socket < 0 {
				socket = p.Socket
			}
			members := append(inList(readFact(topology, "core_siblings_list"), t.CPUs), p.Number)
			for _, n := range members {
				sockets[n] = socket
			}
		}
		if _, known := caches[p.Number]; !known {
			shareUnit(caches, t.CPUs, lastCache(filepath.Join(folder, "cache")), p.Cache, p.Number)
		}
		p.Core, p.Socket, p.Cache = cores[p.Number], sockets[p.Number], caches[p.Number]
	}
	return list
}

// shareUnit stores the lowest number of the CPUs in a list for each of them. Without a list, it stores otherwise for
// the last of these numbers.
func shareUnit(units map[int]int, usable []int, list string, otherwise ...int) {
	members := inList(list, usable)
	if number := otherwise[len(otherwise)-1]; !slices.Contains(members, number) {
		units[number] = otherwise[0]
		return
	}
	for _, n := range members {
		units[n] = members[0]
	}
}

// mostCaches is more than the number of caches that a CPU has.
const mostCaches = 16

// lastCache returns the list of CPUs that share the cache of the highest level of a CPU.
func lastCache(folder string) (list string) {
	highest := 0
	for n := range mostCaches {
		index := filepath.Join(folder, "index"+strconv.Itoa(n))
		level, err := strconv.Atoi(readFact(index, "level"))
		if err != nil {
			break
		}
		if level > highest {
			highest, list = level, readFact(index, "shared_cpu_list")
		}
	}
	return list
}

// mostRelated is the maximum number of related devices of a PCI device.
const mostRelated = 256

// readPCI reads the kernel's description of a PCI device with a valid address. It returns nil if there is no such
// device.
//
// Source: Documentation/ABI/testing/sysfs-bus-pci and sysfs-kernel-iommu_groups of Linux.
func readPCI(sysfs, address string) *vmtypes.PCIDevice {
	folder := filepath.Join(sysfs, "bus/pci/devices", address)
	if _, err := os.Stat(folder); err != nil {
		return nil
	}
	d := vmtypes.PCIDevice{Address: address}
	for name, into := range map[string]*string{"class": &d.ClassCode, "vendor": &d.VendorID, "device": &d.DeviceID} {
		*into = strings.TrimPrefix(readFact(folder, name), "0x")
	}
	if node, err := strconv.Atoi(readFact(folder, "numa_node")); err == nil && node >= 0 {
		d.Node = &node
	}
	d.Driver, d.PhysicalFunction = linkedName(folder, "driver"), linkedName(folder, "physfn")
	if group := linkedName(folder, "iommu_group"); group != nil {
		if number, err := strconv.Atoi(*group); err == nil {
			d.IOMMUGroup = &number
			d.GroupMembers = folderNames(filepath.Join(folder, "iommu_group/devices"))
		}
	}
	for n := range mostRelated {
		function := linkedName(folder, "virtfn"+strconv.Itoa(n))
		if function == nil {
			break
		}
		d.VirtualFunctions = append(d.VirtualFunctions, *function)
	}
	return &d
}

// linkedName returns the name of a link's target, nil without a link.
func linkedName(folder, name string) *string {
	target, err := os.Readlink(filepath.Join(folder, name))
	if err != nil {
		return nil
	}
	return new(filepath.Base(target))
}

// folderNames returns the sorted names in a folder, at most mostRelated of them.
func folderNames(folder string) []string {
	f, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(mostRelated) // an empty folder is an error
	slices.SortFunc(names, cmp.Compare[string])
	return names
}

// largestFact is the size of the largest attribute in sysfs.
const largestFact = 4096

// readFact returns the text of an attribute in sysfs, "" if it can't be read.
func readFact(folder, name string) string {
	text, err := readfile.ReadFile(filepath.Join(folder, name), largestFact)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// reducedPhysBits is the number of lost bits that QEMU reports in query-sev-capabilities for every CPU.
const reducedPhysBits = 1

// readConfidential reads the support for encrypted guests. KVM decides it when its module is loaded. The position of
// the C-bit is what QEMU compares its property with: bits 0 to 5 of EBX in leaf 0x8000001F of CPUID. Source: AMD64
// Architecture Programmer's Manual, volume 3, appendix E.4.17; target/i386/sev.c of QEMU.
func readConfidential(sysfs string, cpuid func(leaf uint32) (eax, ebx uint32)) (c vmtypes.Confidential) {
	enabled := func(module, parameter string) bool {
		switch readFact(filepath.Join(sysfs, "module", module, "parameters"), parameter) {
		case "Y", "1":
			return true
		}
		return false
	}
	c.TDX = enabled("kvm_intel", "tdx")
	const extended, encryption = 0x80000000, 0x8000001f
	if last, _ := cpuid(extended); !enabled("kvm_amd", "sev") || last < encryption {
		return c
	}
	_, ebx := cpuid(encryption)
	c.SEV = &vmtypes.SEV{
		ES: enabled("kvm_amd", "sev_es"), SNP: enabled("kvm_amd", "sev_snp"),
		CBitPos: int(ebx & 0x3f), ReducedPhysBits: reducedPhysBits,
	}
	return c
}
