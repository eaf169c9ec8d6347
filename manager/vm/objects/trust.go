package objects

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "vmop/api/v1"
	"vmop/vmspec"
	"vmop/vmtypes/signature"
)

// Trust lists what the administrator allows in pods with more rights than Pod Security's level "restricted", in
// addition to the manager's own image, types and files. A user who can write VMs chooses everything else, and could
// use it to become root on the node or to access its network.
//
// See docs/decisions/0044-trust.md.
type Trust struct {
	// Images are trusted runner images.
	Images []ImagePattern
	// VMTypes are the names of ConfigMaps with trusted VM types; "*" matches every name.
	VMTypes []string
	// TypeImages are the only images that VM types are read from.
	TypeImages []ImagePattern
	// TypeKeys are trusted keys: one of them must have signed these images. Without keys, signatures are ignored.
	TypeKeys []signature.Key
	// Claims are the names of claims with trusted files, regardless of who wrote them; "*" matches every name.
	Claims []string
	// URLs are the allowed URLs of CD media that are read in the node's network.
	URLs []URLPattern
	// Bridges are the node bridges that a VM's tap may use; "*" matches every name. Unfiltered are the bridges where
	// guests may use any hardware address, and act as servers for others.
	Bridges, Unfiltered []string
}

// beyondRestricted reports whether a pod violates the level "restricted". The levels don't cover devices of a
// plugin.
func (r *rights) beyondRestricted() bool {
	return r.privileged || r.root || r.hostNetwork || len(r.capabilities) > 0 || len(r.devices) > 0
}

// Distrust returns why a VM must not run as defined: its definition names something that isn't trusted with the
// rights of its pod, or its VM types come from a source that isn't allowed. claims are the result of Claims.
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
			"%s, and the VM's pod gets %s; run the VM %s, or ask the administrator to %s",
			what, r.rightsText(), r.howToNeedLess(), trust)})
	}
	if image, trusted := trustedImage(vm, s); !trusted {
		add("spec.image", image+" is not a trusted image", "add it to trustedImages in the manager's configuration")
	}
	if name := vm.Spec.VMType.ConfigMap; !trustedTypes(name, s) {
		add("spec.vmType.configMap", name+" is not a trusted source of VM types",
			"add it to trustedVMTypes in the manager's configuration")
	}
	for _, c := range claims {
		if c.Untrusted != "" && !isListed(s.Trust.Claims, c.Name) {
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

// foreignBridges returns a problem for each tap on a bridge that VMs may not use.
func foreignBridges(vm *v1.VirtualMachine, s Settings) []Problem {
	var all []Problem
	for i, n := range vm.Spec.VM.Networks {
		if n.Tap == nil || isListed(s.Trust.Bridges, bridgeOf(n.Tap.Bridge)) {
			continue
		}
		allowed := "none is allowed"
		if len(s.Trust.Bridges) > 0 {
			allowed = "allowed: " + strings.Join(s.Trust.Bridges, ", ")
		}
		all = append(all, Problem{
			Path: fmt.Sprintf("spec.vm.networks[%d].tap.bridge", i), Fatal: true, Message: fmt.Sprintf(
				"VMs must not use the bridge %s of the node (%s); name another bridge, use masquerade, or ask the administrator "+
					"to add it to allowedBridges in the manager's configuration", bridgeOf(n.Tap.Bridge), allowed),
		})
	}
	return all
}

// bridgeOf returns the bridge of a tap.
func bridgeOf(name string) string { return cmp.Or(name, vmspec.DefaultBridge) }

// isListed reports whether a list contains a name, or matches every name.
func isListed(names []string, name string) bool {
	return slices.Contains(names, name) || slices.Contains(names, everything)
}

// inNodesNetwork returns a problem for each part of a VM that must not be in the node's network, which the pod of a
// VM with a tap on a bridge shares. Services on the node's loopback addresses, and services that answer only nodes,
// for example a cloud's metadata service, trust every client there.
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
		if !slices.ContainsFunc(s.Trust.URLs, func(p URLPattern) bool { return p.matchesURL(d.CDROM.Image) }) {
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
	return image, slices.ContainsFunc(trusted, func(p ImagePattern) bool { return p.matchesImage(image) })
}

// trustedTypes reports whether the VM types in a ConfigMap that a VM names may be used in every pod.
func trustedTypes(name string, s Settings) bool {
	return name == "" || name == s.VMTypes || isListed(s.Trust.VMTypes, name)
}

// untrustedPart returns the part of a VM that could leave files in its volumes that are dangerous for another pod with
// more rights: VM types, or links to devices. It returns "" if all parts are trusted.
func untrustedPart(vm *v1.VirtualMachine, s Settings) string {
	if image, trusted := trustedImage(vm, s); !trusted {
		return "the image " + image
	}
	if name := vm.Spec.VMType.ConfigMap; !trustedTypes(name, s) {
		return "the VM types in the ConfigMap " + name
	}
	return ""
}

// rightsText returns the rights, each with the field that requires it.
func (r *rights) rightsText() string {
	var all []string
	for _, p := range r.reasons {
		all = append(all, p.Name+" for "+p.Reason)
	}
	return strings.Join(all, ", ")
}

// howToNeedLess describes how a VM can run without the rights.
func (r *rights) howToNeedLess() string {
	var ways []string
	if r.privileged {
		ways = append(ways, "with spec.vm.accelerator tcg, or kvmResource in the manager's configuration")
	}
	if r.networked {
		ways = append(ways, "with networks of the kind user")
	}
	return strings.Join(ways, ", and ")
}
