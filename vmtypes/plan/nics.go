package plan

import (
	"fmt"
	"slices"
	"strings"
)

// NICs means that network cards can be plugged in and unplugged (netdev_add, device_add, device_del). The VM type
// itself decides about the card and its backend: a card is what its plan has in addition when vm.network has one more
// network.
type NICs struct {
	// Buses are the ids of PCI ports for one card each, at most MaxPluggedDisks. A port may also be in Disks.Buses.
	Buses []string `json:"buses"`
	// Types are the types of networks (vm.network[].type) that can be plugged in.
	Types []string `json:"types"`
}

// NICTypes returns the possible Types of NICs: the networks that need no process next to QEMU.
func NICTypes() []string { return []string{"masquerade", "tap", "user"} }

// Link means that a network card can be disconnected from its network, as if its cable were pulled (set_link).
type Link struct {
	// Network is the index in vm.network. Its link is the configured state.
	Network int `json:"network"`
	// Device is the id of the card.
	Device string `json:"device"`
}

// Kind implements Rule.
func (NICs) Kind() string { return "nics" }

// Kind implements Rule.
func (Link) Kind() string { return "link" }

func (r NICs) String() string {
	return fmt.Sprintf("nics buses=%s types=%s", strings.Join(r.Buses, ","), strings.Join(r.Types, ","))
}

func (r Link) String() string { return fmt.Sprintf("link network=%d device=%s", r.Network, r.Device) }

func (NICs) rule() {}
func (Link) rule() {}

// NICs returns the rule of type NICs, and whether it exists.
func (rs Rules) NICs() (NICs, bool) {
	for _, r := range rs {
		if n, is := r.(NICs); is {
			return n, true
		}
	}
	return NICs{}, false
}

// checkNetworkRule checks a rule about network cards. first is the first rule of type NICs, or nil.
func (c *checker) checkNetworkRule(rule Rule, at Origin, first *Rule, device func(kind, id string)) {
	switch r := rule.(type) {
	case NICs:
		c.checkNICs(r, at, device)
		c.onlyOne(r, at, first, "would both plug in the network cards")
	case Link:
		device("link", r.Device)
	}
}

// checkNICs checks the ports and types of a rule.
func (c *checker) checkNICs(r NICs, at Origin, device func(kind, id string)) {
	for _, bus := range r.Buses {
		device("nics", bus)
	}
	if len(r.Buses) < 1 || len(r.Buses) > MaxPluggedDisks {
		c.addFault(at, "hotplug.nics: %d buses; required: 1 to %d buses", len(r.Buses), MaxPluggedDisks)
	}
	for _, of := range r.Types {
		if !slices.Contains(NICTypes(), of) {
			c.addFault(at, "hotplug.nics: types contains %q, but a card can be plugged in only for %s", of,
				strings.Join(NICTypes(), ", "))
		}
	}
	if len(r.Types) == 0 {
		c.addFault(at, "hotplug.nics: types is empty; required: at least one of %s", strings.Join(NICTypes(), ", "))
	}
}
