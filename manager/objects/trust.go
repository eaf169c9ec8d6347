package objects

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "vmop/api/v1"
	"vmop/vmspec"
)

// Trust is what the administrator lets run in pods that get more than Pod Security's level
// "restricted", besides the manager's own image, types and files. A user who can write VMs
// chooses the rest, and could by that become root on the node, or get into its network.
//
// See docs/decisions/0044-trust.md.
type Trust struct {
	// Images are trusted ones.
	Images []ImagePattern
	// VMTypes are the names of ConfigMaps with VM types; "*" is each.
	VMTypes []string
	// TypeImages are those from which VM types are taken at all.
	TypeImages []ImagePattern
	// Claims are the names of claims whose files are trusted, whoever has written them;
	// "*" is each.
	Claims []string
	// URLs are those that CD drives get their media from in the node's network.
	URLs []URLPattern
	// Bridges are those of nodes that a VM's tap may name; "*" is each. Unfiltered are those among them whose guests
	// may use any hardware address, and be servers for others.
	Bridges, Unfiltered []string
}

// beyondRestricted reports whether a pod does not pass the level "restricted". The levels
// say nothing about devices of a plugin.
func (r *rights) beyondRestricted() bool {
	return r.privileged || r.root || r.hostNetwork || len(r.capabilities) > 0 || len(r.devices) > 0
}

// Distrust returns why a VM must not run as it is defined: what its pod gets is not
// for what is named there, or its VM types are from where none are taken. claims are those of Claims.
func Distrust(vm *v1.VirtualMachine, s Settings, claims []Claim) []Problem {
	var all []Problem
	if fault := TypeImageFault(vm, s); fault != nil {
		all = append(all, *fault)
	}
	all = append(all, foreignBridges(vm, s)...)
	r := rightsOf(vm, s)
	if !r.beyondRestricted() {
		return all
	}
	add := func(path, what, trust string) {
		all = append(all, Problem{Path: path, Fatal: true, Message: fmt.Sprintf(
			"%s, and the VM's pod gets %s; run the VM %s, or ask the administrator to %s", what, r.listed(), r.less(), trust)})
	}
	if image, trusted := trustedImage(vm, s); !trusted {
		add("spec.image", image+" is not a trusted image", "add it to trustedImages in the manager's configuration")
	}
	if name := vm.Spec.VMType.ConfigMap; !trustedTypes(name, s) {
		add("spec.vmType.configMap", name+" is not a trusted source of VM types",
			"add it to trustedVMTypes in the manager's configuration")
	}
	for _, c := range claims {
		if c.Untrusted != "" && !listed(s.Trust.Claims, c.Name) {
			what := fmt.Sprintf("the files in the volume of claim %s are not trusted, because of %s", c.Name, c.Untrusted)
			add(cmp.Or(c.Path, "spec"), what,
				"check them and add the claim to trustedClaims in the manager's configuration")
		}
	}
	if r.hostNetwork {
		all = append(all, inNodesNetwork(vm, s)...)
	}
	return all
}

// foreignBridges returns which taps are on bridges that are not for VMs.
func foreignBridges(vm *v1.VirtualMachine, s Settings) []Problem {
	var all []Problem
	for i, n := range vm.Spec.VM.Networks {
		if n.Tap == nil || listed(s.Trust.Bridges, bridgeOf(n.Tap.Bridge)) {
			continue
		}
		allowed := "none is allowed"
		if len(s.Trust.Bridges) > 0 {
			allowed = "allowed: " + strings.Join(s.Trust.Bridges, ", ")
		}
		all = append(all, Problem{
			Path: fmt.Sprintf("spec.vm.networks[%d].tap.bridge", i), Fatal: true, Message: fmt.Sprintf(
				"the bridge %s of the node is not for VMs (%s); name another one, use masquerade, or ask the administrator "+
					"to add it to allowedBridges in the manager's configuration", bridgeOf(n.Tap.Bridge), allowed),
		})
	}
	return all
}

// bridgeOf returns the bridge that a tap means.
func bridgeOf(name string) string { return cmp.Or(name, vmspec.DefaultBridge) }

// listed reports whether a list has a name, or means each.
func listed(names []string, name string) bool {
	return slices.Contains(names, name) || slices.Contains(names, everything)
}

// inNodesNetwork returns what must not be in the node's network, where a VM with a tap on a
// bridge has its pod: services that listen on the node's loopback addresses, or answer only
// nodes, such as a cloud's metadata, trust everything there.
func inNodesNetwork(vm *v1.VirtualMachine, s Settings) []Problem {
	var all []Problem
	for i, n := range vm.Spec.VM.Networks {
		if n.User != nil {
			path := fmt.Sprintf("spec.vm.networks[%d].user", i)
			all = append(all, Problem{Path: path, Fatal: true, Message: "together with a tap, " +
				"it reaches what listens on the node's loopback addresses; use masquerade, or no tap"})
		}
	}
	for i, d := range vm.Spec.VM.Disks {
		if d.CDROM == nil || !isURL(d.CDROM.Image) {
			continue
		}
		if !slices.ContainsFunc(s.Trust.URLs, func(p URLPattern) bool { return p.matches(d.CDROM.Image) }) {
			path := fmt.Sprintf("spec.vm.disks[%d].cdrom.image", i)
			all = append(all, Problem{Path: path, Fatal: true, Message: fmt.Sprintf(
				"%q would be read from the node's network, because of a tap; use a file in the image repository, "+
					"or ask the administrator to add it to trustedURLs in the manager's configuration", d.CDROM.Image)})
		}
	}
	return all
}

// trustedImage returns a VM's image, and whether it may run in every pod.
func trustedImage(vm *v1.VirtualMachine, s Settings) (string, bool) {
	image, _ := imageOf(vm, s)
	if ownImage(vm) == "" {
		return image, true
	}
	trusted := append(slices.Clip(s.Trust.Images), repositoryOf(s.Image))
	return image, slices.ContainsFunc(trusted, func(p ImagePattern) bool { return p.matches(image) })
}

// trustedTypes reports whether the VM types in a ConfigMap, which a VM names, may be used in
// every pod.
func trustedTypes(name string, s Settings) bool {
	return name == "" || name == s.VMTypes || listed(s.Trust.VMTypes, name)
}

// untrusted says what in a VM's pod could leave something in its volumes that another pod,
// with more rights, would take for its own: VM types, or links to devices. "" is nothing.
func untrusted(vm *v1.VirtualMachine, s Settings) string {
	if image, trusted := trustedImage(vm, s); !trusted {
		return "the image " + image
	}
	if name := vm.Spec.VMType.ConfigMap; !trustedTypes(name, s) {
		return "the VM types in the ConfigMap " + name
	}
	return ""
}

// listed are the rights, each with the field that needs it.
func (r *rights) listed() string {
	var all []string
	for _, p := range r.reasons {
		all = append(all, p.Name+" for "+p.Reason)
	}
	return strings.Join(all, ", ")
}

// less says how a VM can do without the rights.
func (r *rights) less() string {
	var ways []string
	if r.privileged {
		ways = append(ways, "with spec.vm.accelerator tcg, or kvmResource in the manager's configuration")
	}
	if r.networked {
		ways = append(ways, "with networks of the kind user")
	}
	return strings.Join(ways, ", and ")
}
