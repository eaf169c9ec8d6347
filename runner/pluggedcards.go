package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vmop/internal/printable"
	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// cardSlot is a network card that was plugged in while the guest ran. After a migration the guest must find it in the
// same port.
type cardSlot struct {
	MAC   string `json:"mac"`
	Place int    `json:"place"`
	// Driver is the driver of the card.
	Driver string `json:"driver"`
}

// A peripheral is a device of the machine that has an ID.
type peripheral struct{ Name, Type string }

// driver returns the driver of the device.
func (p peripheral) driver() string {
	return strings.TrimSuffix(strings.TrimPrefix(p.Type, "child<"), ">")
}

func (m *run) listPeripherals(ctx context.Context) (devices []peripheral, err error) {
	question := map[string]string{"path": "/machine/peripheral"}
	err = m.driver.Query(ctx, qmp.Command{Execute: "qom-list", Arguments: question}, &devices)
	return devices, err
}

// pluggedCards returns the network cards that were plugged in while the guest ran, by their ports. It returns a
// control.Refusal if a target could not recreate such a card.
func (m *run) pluggedCards(ctx context.Context, want []reconcile.Card) (cards []cardSlot, err error) {
	devices, err := m.listPeripherals(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		mac, place, plugged := reconcile.CardOf(d.Name)
		if !plugged {
			continue
		}
		i := slices.IndexFunc(want, func(c reconcile.Card) bool { return c.MAC == mac })
		switch {
		case i < 0:
			return nil, control.Refusal("its network card " + mac +
				" is to be unplugged, and the guest has not released it yet")
		case !want[i].HasID(d.Name):
			return nil, control.Refusal("its network card " + mac + " is plugged in with another configuration than " +
				want[i].Path() + " has")
		}
		cards = append(cards, cardSlot{MAC: mac, Place: place, Driver: d.driver()})
	}
	slices.SortFunc(cards, func(a, b cardSlot) int { return cmp.Compare(a.Place, b.Place) })
	return cards, nil
}

// hasStillAll returns an error if the guest, which is paused for the switch, has released a device that was offered.
func (m *run) hasStillAll(ctx context.Context, o offer, want []reconcile.Drive, cards []reconcile.Card) error {
	return cmp.Or(m.hasStill(ctx, o.Plugged, want), m.hasStillCards(ctx, o.Cards, cards))
}

// hasStillCards returns an error if the guest, which is paused for the switch, has released a network card that was
// offered.
func (m *run) hasStillCards(ctx context.Context, offered []cardSlot, want []reconcile.Card) error {
	now, err := m.pluggedCards(ctx, want)
	if err == nil && !slices.Equal(now, offered) {
		err = errors.New("the guest has released a network card meanwhile that was plugged in while it ran")
	}
	return err
}

// cardHardware describes network cards that were plugged in while the guest ran, in the format of handover.Hardware.
func cardHardware(p *plan.Plan, cards []cardSlot) (lines []string) {
	rule, _ := p.Rules.NICs()
	for _, c := range cards {
		if c.Place >= 0 && c.Place < len(rule.Buses) {
			lines = append(lines, fmt.Sprintf("the network card %s that was plugged in while it ran (%s in %s)",
				printable.Line(c.MAC), printable.Line(c.Driver), rule.Buses[c.Place]))
		}
	}
	return lines
}

// setCards makes the target plug in the network cards that the source has plugged in. The other networks of the
// configuration are part of the plan.
func (r *receiver) setCards(offered []cardSlot) {
	r.vm.Places = []prepare.CardPlace{}
	for _, c := range offered {
		r.vm.Places = append(r.vm.Places, prepare.CardPlace{MAC: c.MAC, Place: c.Place})
	}
}

// ownCards returns the network cards that this machine will have in addition to its plan. It returns an error if a card
// of the source is missing in the configuration here, or if the machine doesn't take it.
func (r *receiver) ownCards(offered []cardSlot) (own []cardSlot, err error) {
	for _, o := range offered {
		i := slices.IndexFunc(r.vm.NICs, func(c reconcile.Card) bool { return c.MAC == o.MAC })
		if i < 0 {
			return nil, fmt.Errorf("the guest has the network card %s, which was plugged in while it ran, and vm.network has no "+
				"network here with that address that can be plugged in", printable.Line(o.MAC))
		}
		driver, _ := r.vm.NICs[i].Device["driver"].(string)
		own = append(own, cardSlot{MAC: o.MAC, Place: o.Place, Driver: driver})
	}
	return own, nil
}
