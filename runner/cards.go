package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"vmop/runner/launch"
	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// cards keeps the taps of the network cards that are plugged into the running machine, and stores their ports in the
// data directory.
//
// See docs/decisions/0196-network-cards.md.
type cards struct {
	vm  *prepare.VM
	log *slog.Logger

	mu     sync.Mutex
	list   []prepare.CardPlace
	taps   map[string]io.Closer // by hardware address
	closed bool
}

// newCards returns the cards in the data directory, without taps.
func newCards(vm *prepare.VM, log *slog.Logger) (*cards, error) {
	list, err := prepare.ReadCards(vm.DataDir)
	return &cards{vm: vm, log: log, list: list, taps: map[string]io.Closer{}}, err
}

// Open implements drive.Cards. The port is stored first, so that the next runner closes what this runner has opened.
func (c *cards) Open(ctx context.Context, card reconcile.Card, place int) (open reconcile.OpenCard, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return open, errors.New("the VM is being stopped")
	}
	for _, other := range c.list {
		if card.Tap != nil && other.Tap != nil && other.MAC != card.MAC && other.Tap.Name == card.Tap.Name {
			return open, fmt.Errorf("the tap %s belongs to the network card %s until the guest has released that card",
				card.Tap.Name, other.MAC)
		}
	}
	c.closeTap(card.MAC)
	c.list = slices.DeleteFunc(slices.Clone(c.list), func(p prepare.CardPlace) bool { return p.MAC == card.MAC })
	c.list = append(c.list, prepare.CardPlace{MAC: card.MAC, Place: place, Tap: card.Tap})
	if err := prepare.KeepCards(c.vm.DataDir, c.list); err != nil {
		return open, fmt.Errorf("store the port of the network card: %w", err)
	}
	if card.Tap == nil {
		return open, nil
	}
	tap, err := launch.OpenTap(ctx, *card.Tap, c.vm.Spec.UUID, c.log)
	if err != nil {
		return open, err
	}
	c.taps[card.MAC] = tap
	open.Queues, err = copiesOf(tap.Files())
	if err == nil {
		open.Rules, err = copiesOf(tap.Inherit())
	}
	if err != nil {
		for _, f := range open.Files() {
			_ = f.Close()
		}
		c.closeTap(card.MAC)
		return reconcile.OpenCard{}, err
	}
	return open, nil
}

// copiesOf returns copies of descriptors.
func copiesOf(files []*os.File) (copies []*os.File, err error) {
	for _, f := range files {
		fd, err := unix.FcntlInt(f.Fd(), syscall.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return copies, os.NewSyscallError("fcntl", err)
		}
		copies = append(copies, os.NewFile(uintptr(fd), f.Name()))
	}
	return copies, nil
}

// Release implements drive.Cards.
func (c *cards) Release(mac string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetCards(func(p prepare.CardPlace) bool { return p.MAC == mac })
}

// KeepOnly implements drive.Cards.
func (c *cards) KeepOnly(macs []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetCards(func(p prepare.CardPlace) bool { return !slices.Contains(macs, p.MAC) })
}

// forgetCards closes the taps of some cards, and forgets their ports.
func (c *cards) forgetCards(gone func(prepare.CardPlace) bool) {
	before := len(c.list)
	for _, p := range c.list {
		if gone(p) {
			c.closeTap(p.MAC)
		}
	}
	c.list = slices.DeleteFunc(slices.Clone(c.list), gone)
	if len(c.list) == before {
		return
	}
	if err := prepare.KeepCards(c.vm.DataDir, c.list); err != nil {
		c.log.Warn("a network card that was unplugged is plugged in again at the next start", "err", err)
	}
}

// closeTap closes the tap of a card, if it has one.
func (c *cards) closeTap(mac string) {
	if tap := c.taps[mac]; tap != nil {
		if err := tap.Close(); err != nil {
			c.log.Warn("the tap of a network card is not closed", "mac", mac, "err", err)
		}
		delete(c.taps, mac)
	}
}

// adoptTaps takes over the taps that an earlier runner has opened for a running machine.
func (c *cards) adoptTaps(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.list {
		if p.Tap == nil {
			continue
		}
		tap, err := launch.AdoptTap(ctx, *p.Tap, c.vm.Spec.UUID, c.log)
		if err != nil {
			c.log.Error("a network of the VM does not work", "tap", p.Tap.Name, "err", err)
			continue
		}
		c.taps[p.MAC] = tap
	}
}

// close closes all taps. The ports stay stored for the next start.
func (c *cards) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	var errs []error
	for mac, tap := range c.taps {
		errs = append(errs, tap.Close())
		delete(c.taps, mac)
	}
	return errors.Join(errs...)
}

// keepCards reads the ports of network cards that were plugged in earlier.
func (m *run) keepCards(ctx context.Context, adopted bool) (err error) {
	if m.cards, err = newCards(m.vm, m.log); err != nil {
		if !adopted {
			return err
		}
		m.log.Error("the taps of plugged network cards are not taken over", "err", err)
	}
	m.undo.AddMachine("taps of plugged network cards", m.cards.close)
	if adopted {
		m.cards.adoptTaps(ctx)
	} else {
		macs := []string{}
		for _, card := range m.vm.NICs {
			macs = append(macs, card.MAC)
		}
		m.cards.KeepOnly(macs)
	}
	return nil
}

// plugCards plugs network cards into the paused machine, in the ports where the guest had them before.
func (m *run) plugCards(ctx context.Context) error {
	rule, _ := m.vm.Plan.Rules.NICs()
	for _, card := range m.vm.NICs {
		i := slices.IndexFunc(m.vm.Places, func(p prepare.CardPlace) bool { return p.MAC == card.MAC })
		if err := m.plugCard(ctx, card, m.vm.Places[i].Place, rule); err != nil {
			return fmt.Errorf("%s: plug in the network card: %w", card.Path(), err)
		}
	}
	return nil
}

func (m *run) plugCard(ctx context.Context, card reconcile.Card, place int, rule plan.NICs) error {
	open, err := m.cards.Open(ctx, card, place)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range open.Files() {
			_ = f.Close() // QEMU has its own
		}
	}()
	for _, c := range reconcile.PlugOf(rule, card, place, open).Do {
		if _, err := m.driver.Command(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.Execute, err)
		}
	}
	return nil
}
