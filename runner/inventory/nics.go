package inventory

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"vmop/internal/spelling"
	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
)

// A NIC describes one of a VM's network cards: its configuration, and what the running machine has.
type NIC struct {
	VM string `json:"vm"`
	// MAC is the hardware address, which identifies the card. It is empty until the VM's first start.
	MAC string `json:"mac,omitempty"`
	// Place is the index in vm.network; -1 for a card that only the running machine has.
	Place int `json:"place"`
	// Network is the type of the network, and Bridge the bridge of a tap.
	Network vmspec.NetworkType `json:"network,omitempty"`
	Bridge  string             `json:"bridge,omitempty"`
	// Device is the model of the card, Link the configured state of its link.
	Device string           `json:"device,omitempty"`
	Link   vmspec.LinkState `json:"link,omitempty"`
	// Names are the names in the guest, such as eth1, and PCI is the address there. Both are empty if the guest doesn't
	// have the card.
	Names []string `json:"names,omitempty"`
	PCI   string   `json:"pci,omitempty"`
	// Pending shows what the card waits for; empty if the running machine is as configured.
	Pending string `json:"pending,omitempty"`
}

// NICs returns the network cards of a VM, in the order of vm.network. Cards that only the running machine has are
// last.
func (inv *Inventory) NICs(ctx context.Context, name string) ([]NIC, error) {
	vm, err := inv.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	networks, err := inv.networksOf(ctx, vm)
	if err != nil {
		return nil, err
	}
	running, err := vm.preparedAtStart(ctx)
	if err != nil {
		return nil, err
	}
	list := []NIC{}
	for i, n := range networks {
		c := nicOf(vm.Name, i, n)
		if running != nil {
			c.Pending = pendingOf(vm.Status, running, c)
		}
		list = append(list, c)
	}
	if running == nil {
		return list, nil
	}
	for _, n := range running.Spec.Network {
		c := nicOf(vm.Name, -1, n)
		c.Pending = "removed at the next start"
		list = addNIC(list, c)
	}
	for _, n := range vm.Status.NICs {
		list = addNIC(list, NIC{VM: vm.Name, MAC: n.MAC, Place: -1, Pending: describeNIC(n)})
	}
	return list, vm.nameNICs(ctx, list)
}

// addNIC appends a card unless the list has a card with its address.
func addNIC(list []NIC, c NIC) []NIC {
	if slices.ContainsFunc(list, func(other NIC) bool { return sameMAC(other.MAC, c.MAC) }) {
		return list
	}
	return append(list, c)
}

func nicOf(vm string, place int, n vmspec.Network) NIC {
	return NIC{
		VM: vm, MAC: cmp.Or(usualMAC(n.MAC), n.MAC), Place: place, Network: n.Type, Bridge: n.Bridge, Device: n.Device,
		Link: n.Link,
	}
}

// networksOf returns vm.network as the next start uses it. Hardware addresses are empty as long as the VM has no uuid.
func (inv *Inventory) networksOf(ctx context.Context, vm *VM) ([]vmspec.Network, error) {
	prepared, err := inv.preparedNow(ctx, vm)
	if err != nil {
		return nil, err
	}
	networks := slices.Clone(prepared.WholeSpec().Network)
	for i := range networks {
		if vm.configuredMAC(i) == "" && prepared.Spec.UUID == config.PlaceholderUUID {
			networks[i].MAC = ""
		}
	}
	return networks, nil
}

// configuredMAC returns the hardware address in the configuration; "" if it has none.
func (vm *VM) configuredMAC(i int) string {
	if vm.Config == nil || i >= len(vm.Config.VM.Network) {
		return ""
	}
	return vm.Config.VM.Network[i].MAC
}

// pendingOf returns what a configured card waits for in a running machine.
func pendingOf(s *status.Status, running *prepare.VM, c NIC) string {
	path := fmt.Sprintf("vm.network[%d]", c.Place)
	changes := func(change status.Change) bool {
		rest, is := strings.CutPrefix(change.Path, path)
		return is && (rest == "" || strings.HasPrefix(rest, "."))
	}
	switch n := nicStatus(s, c.MAC); {
	case n != nil && n.State == status.NICPlugged:
		return ""
	case n != nil:
		return describeNIC(*n)
	case !startedWithNIC(running, c.MAC):
		return "added at the next start"
	case slices.ContainsFunc(s.RestartAwaitingChanges, changes):
		return "changed at the next start"
	}
	return ""
}

// describeNIC returns the state of a plugged card in words.
func describeNIC(n status.NIC) string {
	text := strings.ToLower(n.State)
	if n.Message != "" {
		text += ": " + n.Message
	}
	return text
}

// nicStatus returns the runner's report about a plugged card; nil if there is no report.
func nicStatus(s *status.Status, mac string) *status.NIC {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.NICs, func(n status.NIC) bool { return sameMAC(n.MAC, mac) })
	if i < 0 {
		return nil
	}
	return &s.NICs[i]
}

// startedWithNIC reports whether a VM was started with a card.
func startedWithNIC(running *prepare.VM, mac string) bool {
	return slices.ContainsFunc(running.Spec.Network, func(n vmspec.Network) bool { return sameMAC(n.MAC, mac) })
}

// nameNICs adds the names that the guest uses.
func (vm *VM) nameNICs(ctx context.Context, list []NIC) error {
	client, err := vm.Dial(ctx)
	if err != nil {
		return err
	}
	report, err := client.Devices(ctx)
	if err != nil {
		return fmt.Errorf("ask for the devices of %s: %w", vm.Name, err)
	}
	for _, d := range report.Devices {
		if i := slices.IndexFunc(list, func(c NIC) bool { return sameMAC(c.MAC, d.MAC) }); i >= 0 {
			list[i].Names, list[i].PCI = d.Names, d.PCI
		}
	}
	return nil
}

// findNIC returns the card with a hardware address, a name in the guest, or a path such as network[1].
func (vm *VM) findNIC(list []NIC, word string) (NIC, error) {
	var known []string
	for _, c := range list {
		names := slices.Clone(c.Names)
		if c.Place >= 0 {
			names = append(names, fmt.Sprintf("network[%d]", c.Place))
		}
		if c.MAC != "" {
			names = append(names, c.MAC)
		}
		if c.PCI != "" {
			names = append(names, strings.TrimPrefix(c.PCI, "0000:"))
		}
		mac := usualMAC(word)
		if slices.Contains(names, strings.TrimPrefix(word, "vm.")) || mac != "" && mac == usualMAC(c.MAC) {
			return c, nil
		}
		known = append(known, names...)
	}
	hint := "its network cards: " + strings.Join(known, ", ")
	if near := spelling.Nearest(word, known); near != "" {
		hint = "did you mean " + near + "?"
	} else if known == nil {
		hint = "it has none"
	}
	return NIC{}, fmt.Errorf("%s has no network card %s (%s)", vm.Name, word, hint)
}

// usualMAC returns a hardware address in its usual form; "" if the text is not an address.
func usualMAC(text string) string {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return ""
	}
	return mac.String()
}

func sameMAC(a, b string) bool { return a != "" && usualMAC(a) == usualMAC(b) }
