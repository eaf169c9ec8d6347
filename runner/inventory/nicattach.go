package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/vmspec"
)

// A NICChange is the result of a change of a network card.
type NICChange struct {
	NIC NIC
	// Text is the changed configuration.
	Text []byte
	// Unchanged reports that the configuration already was as requested.
	Unchanged bool
	// Running reports whether the VM is running. Its machine is as configured, unless Later gives the reason for a
	// delay, and its end.
	Running bool
	Later   string
	// Warnings about the configuration, for people.
	Warnings []string
}

// A NICRequest is a request to change a network card.
type NICRequest struct {
	// VM is the name of the VM.
	VM string
	// Limit is the time for the guest of a running VM.
	Limit time.Duration
	// DryRun computes the changed configuration and its effect without saving it.
	DryRun bool
	// Tell is called with the current step and what it waits for.
	Tell func(step, text string)
}

// AttachNIC adds a network to the configuration of a VM. If the VM is running, it waits until the card is plugged in.
// A network without a hardware address gets one, so that later changes of other networks don't change it. If the card
// can't be plugged in, AttachNIC restores the configuration, and the error reports it.
//
// See docs/decisions/0196-network-cards.md.
func (inv *Inventory) AttachNIC(ctx context.Context, r NICRequest, n vmspec.Network) (c NICChange, err error) {
	e, err := inv.editNetworks(ctx, r)
	if err != nil {
		return c, err
	}
	if n.MAC == "" {
		n.MAC = e.freeMAC()
	}
	at := len(e.networks)
	item, err := yamlfile.Write(n)
	if err == nil {
		e.text, err = yamlfile.InsertItem(e.text, string(item), at, e.section, "vm", "network")
	}
	e.what = fmt.Sprintf("attach a network card to %s", r.VM)
	if err != nil {
		return c, fmt.Errorf("%s: %w", e.what, err)
	}
	all := e.vm.Config.VM
	all.Network = append(slices.Clone(e.networks), n)
	c.NIC = nicOf(r.VM, at, all.WithDefaults().Network[at])
	c.NIC.MAC = n.MAC
	return c, e.applyNetworks(ctx, r, &c, func(running *prepare.VM, after int64) error {
		return e.awaitPlugged(ctx, r, &c, running, after)
	}, func(error) bool { return true })
}

// DetachNIC removes a network from the configuration of a VM. If the VM is running, it waits until the guest has
// released the card. Networks after it keep their hardware addresses. word identifies the card by its hardware address,
// its name in the guest, or its path, such as network[1].
func (inv *Inventory) DetachNIC(ctx context.Context, r NICRequest, word string) (c NICChange, err error) {
	e, err := inv.editNetworks(ctx, r)
	if err != nil {
		return c, err
	}
	if c.NIC, err = inv.lookUpNIC(ctx, e.vm, word); err != nil {
		return c, err
	}
	e.what = fmt.Sprintf("detach the network card %s of %s", word, r.VM)
	at := c.NIC.Place
	if at >= 0 {
		for i := at + 1; i < len(e.networks) && err == nil; i++ {
			if e.vm.configuredMAC(i) == "" && e.networks[i].MAC != "" {
				mac := strconv.Quote(e.networks[i].MAC)
				e.text, err = yamlfile.Edit(e.text, mac, e.section, "vm", "network", strconv.Itoa(i), "mac")
			}
		}
		if err == nil {
			e.text, err = yamlfile.RemoveItem(e.text, at, e.section, "vm", "network")
		}
		if err != nil {
			return c, fmt.Errorf("%s: %w", e.what, err)
		}
	}
	return c, e.applyNetworks(ctx, r, &c, func(running *prepare.VM, after int64) error {
		return e.awaitUnplugged(ctx, r, &c, running, after)
	}, func(err error) bool { return errors.As(err, new(*refusedError)) })
}

// SetLink sets the state of a card's link in the configuration of a VM. If the VM is running, it waits until the card
// has this state.
func (inv *Inventory) SetLink(ctx context.Context, r NICRequest, word string, link vmspec.LinkState) (
	c NICChange, err error,
) {
	e, err := inv.editNetworks(ctx, r)
	if err != nil {
		return c, err
	}
	if c.NIC, err = inv.lookUpNIC(ctx, e.vm, word); err != nil {
		return c, err
	}
	e.what = fmt.Sprintf("set the link of the network card %s of %s", word, r.VM)
	if c.NIC.Place < 0 {
		return c, fmt.Errorf("%s: it is no longer in the configuration; attach a new card", e.what)
	}
	if c.NIC.Link != link {
		e.text, err = yamlfile.Edit(e.text, string(link), e.section, "vm", "network", strconv.Itoa(c.NIC.Place), "link")
		if err != nil {
			return c, fmt.Errorf("%s: %w", e.what, err)
		}
	}
	c.NIC.Link = link
	return c, e.applyNetworks(ctx, r, &c, func(running *prepare.VM, after int64) error {
		return e.awaitLink(ctx, r, &c, running, after)
	}, func(error) bool { return true })
}

func (inv *Inventory) lookUpNIC(ctx context.Context, vm *VM, word string) (NIC, error) {
	list, err := inv.NICs(ctx, vm.Name)
	if err != nil {
		return NIC{}, err
	}
	return vm.findNIC(list, word)
}

// networkEdit is a change of the networks in a VM's configuration.
type networkEdit struct {
	inv *Inventory
	vm  *VM
	// before is the text of the configuration, and text the changed one. In text, vm.network is always a list.
	before, text []byte
	section      string
	// networks are the networks of before, with their defaults.
	networks []vmspec.Network
	what     string // for errors
}

func (inv *Inventory) editNetworks(ctx context.Context, r NICRequest) (*networkEdit, error) {
	vm, err := inv.editableVM(ctx, r.VM)
	if err != nil {
		return nil, err
	}
	e := &networkEdit{inv: inv, vm: vm}
	if e.before, err = vm.readText(); err != nil {
		return nil, err
	}
	e.text = e.before
	if e.section, err = SectionOf(e.before); err != nil {
		return nil, err
	}
	if e.networks, err = inv.networksOf(ctx, vm); err != nil {
		return nil, err
	}
	if vm.Config.VM.Network == nil { // an added network must not replace the default
		for i, n := range e.networks {
			item, err := yamlfile.Write(vmspec.Network{Type: n.Type})
			if err == nil {
				e.text, err = yamlfile.InsertItem(e.text, string(item), i, e.section, "vm", "network")
			}
			if err != nil {
				return nil, fmt.Errorf("write the default network into the configuration of %s: %w", r.VM, err)
			}
		}
	}
	return e, nil
}

// freeMAC returns a hardware address for one more network: a default address that no card has. It is empty as long as
// the VM has no uuid.
func (e *networkEdit) freeMAC() string {
	uuid, err := config.EnsureUUID(e.vm.DataDir, e.vm.Config.VM.UUID, false)
	if err != nil || uuid == config.PlaceholderUUID {
		return ""
	}
	for i := len(e.networks); ; i++ {
		mac := vmspec.MAC(uuid, i)
		taken := slices.ContainsFunc(e.networks, func(n vmspec.Network) bool { return sameMAC(n.MAC, mac) })
		if !taken && nicStatus(e.vm.Status, mac) == nil {
			return mac
		}
	}
}

// applyNetworks saves the changed configuration, and waits for the running machine. If that fails, it restores the
// configuration where restore permits it.
func (e *networkEdit) applyNetworks(
	ctx context.Context, r NICRequest, c *NICChange, wait func(running *prepare.VM, after int64) error,
	restore func(error) bool,
) error {
	c.Text, c.Unchanged = e.text, string(e.text) == string(e.before)
	after := e.vm.configurationGeneration()
	edit := func() (*Review, error) { return e.inv.Edit(ctx, e.vm.Name, e.before, e.text) }
	if r.DryRun {
		edit = func() (*Review, error) { return e.inv.reviewText(ctx, e.vm, e.text) }
	}
	review, err := edit()
	if err != nil {
		return err
	}
	c.Running, c.Warnings = review.Running, review.Warnings
	running, later, err := e.vm.startedVM(ctx, c.Running, "change")
	if c.Later = later; running == nil || err != nil {
		return err
	}
	if c.Unchanged {
		after = anyGeneration
	}
	if err = wait(running, after); err != nil {
		err = fmt.Errorf("%s: %w", e.what, err)
		if !c.Unchanged && restore(err) {
			err = fmt.Errorf("%w; %s", err, e.vm.putBack(ctx, e.text, e.before))
		}
	}
	return err
}
