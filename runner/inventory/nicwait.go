package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"vmop/runner/config"
	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// whyNotPlugged returns why a running machine gets the card of a network only at its next start; "" if the card is
// plugged in.
func (e *networkEdit) whyNotPlugged(ctx context.Context, running *prepare.VM, c NIC) (string, error) {
	cfg, _, err := config.Parse(e.vm.File, e.text)
	if err == nil && e.vm.Place != nil {
		err = e.vm.settleDirectories(cfg)
	}
	if err != nil {
		return "", err
	}
	wanted, err := running.Renewed(ctx, cfg)
	if err != nil {
		return "", err
	}
	plugged := func(n reconcile.Card) bool { return n.Index == c.Place }
	if slices.ContainsFunc(wanted.NICs, plugged) {
		return "", nil
	}
	rule, has := running.Plan.Rules.NICs()
	switch reason := wanted.Unpluggable[c.Place]; {
	case reason != "":
		return reason, nil
	case !has:
		return "the VM type has no ports for network cards that are plugged in while the guest is running", nil
	case c.Network == vmspec.NetworkPasst:
		return "a network of type passt needs a process next to QEMU, which is started only with the VM", nil
	case !slices.Contains(rule.Types, string(c.Network)):
		return fmt.Sprintf("a network of type %s can't be added while the guest is running", c.Network), nil
	case startedWithNIC(running, c.MAC):
		return "the VM was started with another card with this hardware address", nil
	}
	return c.Device + " can't be plugged in while the guest is running", nil
}

// awaitPlugged waits until a card is plugged in. If that needs a restart, it sets c.Later to the reason.
func (e *networkEdit) awaitPlugged(
	ctx context.Context, r NICRequest, c *NICChange, running *prepare.VM, after int64,
) error {
	later, err := e.whyNotPlugged(ctx, running, c.NIC)
	if c.Later = later; later != "" || err != nil || r.DryRun {
		return err
	}
	last := "the runner has not begun"
	err = e.vm.followRunner(ctx, r.Limit, after, func(s *status.Status) (bool, error) {
		n := nicStatus(s, c.NIC.MAC)
		switch {
		case n == nil:
			return false, nil
		case n.State == status.NICFailed && portsTaken(running, s):
			c.Later = n.Message
			return true, nil
		case n.State == status.NICFailed:
			return false, errors.New(n.Message)
		}
		last = "plugging in the network card"
		if n.Message != "" {
			last = n.Message
		}
		r.Tell("nic", last)
		return n.State == status.NICPlugged, nil
	})
	if errors.Is(err, errLate) {
		err = fmt.Errorf("it is not plugged in within %s: %s", r.Limit, last)
	}
	return err
}

// portsTaken reports whether all ports for cards of a running machine are in use. Disks use the same ports.
func portsTaken(running *prepare.VM, s *status.Status) bool {
	rule, _ := running.Plan.Rules.NICs()
	taken := 0
	for _, n := range s.NICs {
		if n.State == status.NICPlugged || n.State == status.NICUnplugging {
			taken++
		}
	}
	for _, other := range running.Plan.Rules {
		if disks, is := other.(plan.Disks); is && len(rule.Buses) > 0 && slices.Contains(disks.Buses, rule.Buses[0]) {
			taken += countTaken(s)
		}
	}
	return taken >= len(rule.Buses)
}

// awaitUnplugged waits until the guest has released a card.
func (e *networkEdit) awaitUnplugged(
	ctx context.Context, r NICRequest, c *NICChange, running *prepare.VM, after int64,
) error {
	if startedWithNIC(running, c.NIC.MAC) {
		c.Later = "the VM was started with the card, and has it until it is restarted"
	}
	if c.Later != "" || r.DryRun {
		return nil
	}
	last := "the runner has not begun"
	err := e.vm.followRunner(ctx, r.Limit, after, func(s *status.Status) (bool, error) {
		n := nicStatus(s, c.NIC.MAC)
		if n == nil {
			return true, nil
		}
		if n.Message != "" {
			last = n.Message
		}
		r.Tell("nic", last)
		return false, nil
	})
	if errors.Is(err, errLate) {
		err = fmt.Errorf("the guest still has it after %s: %s. It is unplugged when the guest releases it, or when the VM is "+
			"reset or stops. To keep it, attach a card with the same hardware address again", r.Limit, last)
	}
	return err
}

// awaitLink waits until the runner has applied a configuration with another state of a card's link.
func (e *networkEdit) awaitLink(
	ctx context.Context, r NICRequest, c *NICChange, running *prepare.VM, after int64,
) error {
	if !startedWithNIC(running, c.NIC.MAC) && nicStatus(e.vm.Status, c.NIC.MAC) == nil {
		c.Later = "the card is added at the next start"
	}
	if c.Later != "" || r.DryRun || c.Unchanged {
		return nil
	}
	err := e.vm.followRunner(ctx, r.Limit, after, func(s *status.Status) (bool, error) {
		path := fmt.Sprintf("vm.network[%d]", c.NIC.Place)
		i := slices.IndexFunc(s.Problems, func(p status.Problem) bool {
			return p.Path == path || p.Path == path+".link"
		})
		if i >= 0 {
			return false, errors.New(s.Problems[i].Message)
		}
		return s.Configuration.Applied >= s.Configuration.Generation, nil
	})
	if errors.Is(err, errLate) {
		err = fmt.Errorf("the link has not changed within %s", r.Limit)
	}
	return err
}
