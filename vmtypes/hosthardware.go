package vmtypes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// A Processor is a CPU of Topology.CPUs with its place in the host. CPUs with the same number share the unit.
type Processor struct {
	Number int `json:"number" yaml:"number"`
	// Core is the lowest number of a CPU of the same core. CPUs of one core are hardware threads (SMT).
	Core int `json:"core" yaml:"core"`
	// Socket is the number of the processor package.
	Socket int `json:"socket" yaml:"socket"`
	// Cache is the lowest number of a CPU that shares the cache of the last level, usually L3.
	Cache int `json:"cache" yaml:"cache"`
	// Node is the number of the NUMA node.
	Node int `json:"node" yaml:"node"`
}

// SeparateCores returns the processors of a topology as separate cores. The CPUs of a node share a socket and a cache.
func (t Topology) SeparateCores() []Processor {
	list := make([]Processor, 0, len(t.CPUs))
	for _, number := range t.CPUs {
		p := Processor{Number: number, Core: number, Cache: t.CPUs[0]}
		for _, node := range t.Nodes {
			if slices.Contains(node.CPUs, number) {
				p.Socket, p.Cache, p.Node = node.Number, node.CPUs[0], node.Number
			}
		}
		list = append(list, p)
	}
	return list
}

// A PCIDevice is a PCI device of the host.
type PCIDevice struct {
	// Address is the address as lspci -D shows it: 0000:01:00.0.
	Address string `json:"address" yaml:"address"`
	// ClassCode, VendorID and DeviceID are hexadecimal numbers of 6, 4 and 4 digits: 030000, 10de, 2684.
	ClassCode string `json:"classCode,omitempty" yaml:"classCode"`
	VendorID  string `json:"vendorId,omitempty" yaml:"vendorId"`
	DeviceID  string `json:"deviceId,omitempty" yaml:"deviceId"`
	// Driver is the driver of the host, nil without one.
	Driver *string `json:"driver,omitempty" yaml:"driver"`
	// IOMMUGroup is the number of the IOMMU group, nil without one. GroupMembers are the addresses of all devices in
	// the group, sorted.
	IOMMUGroup   *int     `json:"iommuGroup,omitempty" yaml:"iommuGroup"`
	GroupMembers []string `json:"groupMembers,omitempty" yaml:"groupMembers"`
	// Node is the NUMA node, nil if the firmware does not report it.
	Node *int `json:"node,omitempty" yaml:"node"`
	// VirtualFunctions are the addresses of the SR-IOV functions that this device provides. PhysicalFunction is the
	// address of the device that provides this function, nil for an ordinary device.
	VirtualFunctions []string `json:"virtualFunctions,omitempty" yaml:"virtualFunctions"`
	PhysicalFunction *string  `json:"physicalFunction,omitempty" yaml:"physicalFunction"`
}

// Confidential describes the support of a host for encrypted guests.
type Confidential struct {
	// SEV is AMD's Secure Encrypted Virtualization, nil without support.
	SEV *SEV `json:"sev,omitempty"`
	// TDX is Intel's Trust Domain Extensions.
	TDX bool `json:"tdx,omitempty"`
}

// SEV contains the parameters of Secure Encrypted Virtualization.
type SEV struct {
	// ES and SNP report whether guests can use the extensions SEV-ES and SEV-SNP.
	ES  bool `json:"es,omitempty" yaml:"es"`
	SNP bool `json:"snp,omitempty" yaml:"snp"`
	// CBitPos is the position of the C-bit in page table entries, QEMU's property cbitpos.
	CBitPos int `json:"cbitpos" yaml:"cbitpos"`
	// ReducedPhysBits is the number of lost bits of guest addresses, QEMU's property reduced-phys-bits.
	ReducedPhysBits int `json:"reducedPhysBits" yaml:"reducedPhysBits"`
}

// PCIAddress returns the address of a PCI device, and whether text is such an address in the form of lspci -D.
// Otherwise it returns an address that may be meant, or "".
func PCIAddress(text string) (address string, ok bool) {
	form := regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	if form.MatchString(text) {
		return text, true
	}
	words := regexp.MustCompile(`[0-9a-f]+`).FindAllString(
		strings.TrimPrefix(strings.ToLower(strings.TrimSpace(text)), "pci"), -1)
	if len(words) == 3 {
		words = append([]string{""}, words...)
	}
	if len(words) != 4 {
		return "", false
	}
	for i, length := range []int{4, 2, 2, 1} {
		words[i] = strings.Repeat("0", max(0, length-len(words[i]))) + words[i]
	}
	if meant := words[0] + ":" + words[1] + ":" + words[2] + "." + words[3]; form.MatchString(meant) {
		return meant, false
	}
	return "", false
}

// processorsOf returns the processors of the host, which are separate cores if they are unknown.
func (h hostValue) processorsOf() []Processor {
	if h.host.Processors == nil {
		return h.topologyOf().SeparateCores()
	}
	return h.host.Processors()
}

func (h hostValue) confidentialOf() Confidential {
	if h.host.Confidential == nil {
		return Confidential{}
	}
	return h.host.Confidential()
}

// pciBuiltin implements host.pci(address). The result is empty without such a device.
func (h hostValue) pciBuiltin(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var text string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "address", &text); err != nil {
		return nil, err
	}
	address, ok := PCIAddress(text)
	switch {
	case !ok && address != "":
		return nil, fmt.Errorf("%s: %q must be an address as lspci -D shows it (did you mean %q?)", b.Name(), text,
			address)
	case !ok:
		return nil, fmt.Errorf("%s: %q must be an address as lspci -D shows it, such as \"0000:01:00.0\"", b.Name(),
			text)
	case h.host.PCI == nil:
		return starlark.None, nil
	}
	return new(records).recordOf("pci", h.host.PCI(address)), nil
}
