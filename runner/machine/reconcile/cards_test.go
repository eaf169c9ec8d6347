package reconcile

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmtypes/plan"
)

// cardTalk is a dialogue about network cards with a simulated QEMU and a simulated clock.
type cardTalk struct {
	t       *testing.T
	machine *Machine
	now     time.Time
	want    Desired
	devices map[string]bool // IDs of devices
	netdevs map[string]bool // IDs of backends
	deaf    bool            // the guest ignores requests
	broken  string          // a command that QEMU refuses
	opened  int
	closed  []string
	links   map[string]bool
}

func newCardTalk(t *testing.T, start Start) *cardTalk {
	rules := plan.Rules{plan.NICs{Buses: []string{"hotplug0", "hotplug1"}, Types: plan.NICTypes()}}
	return &cardTalk{
		t: t, machine: New(rules, start), now: time.Unix(1000, 0),
		devices: map[string]bool{}, netdevs: map[string]bool{}, links: map[string]bool{},
	}
}

// answer carries out a command.
func (c *cardTalk) answer(command qmp.Command) (any, error) {
	arguments, _ := command.Arguments.(map[string]any)
	text := func(key string) string { value, _ := arguments[key].(string); return value }
	if command.Execute == c.broken {
		return nil, &qmp.Error{Class: qmp.GenericError, Desc: "broken"}
	}
	switch command.Execute {
	case "qom-list":
		list := []map[string]string{}
		for id := range c.devices {
			list = append(list, map[string]string{"name": id})
		}
		return list, nil
	case "human-monitor-command":
		said := ""
		for id := range c.netdevs {
			said += " \\ " + id + ": index=0,type=user\r\n"
		}
		return said, nil
	case "netdev_add":
		c.netdevs[text("id")] = true
	case "netdev_del":
		if !c.netdevs[text("id")] {
			return nil, &qmp.Error{Class: qmp.GenericError, Desc: "not found"}
		}
		delete(c.netdevs, text("id"))
	case "device_add":
		c.devices[text("id")] = true
	case "device_del":
		if !c.deaf {
			delete(c.devices, text("id"))
			event := `{"device": "` + text("id") + `"}`
			defer c.machine.Observe(qmp.Event{Name: "DEVICE_DELETED", Data: json.RawMessage(event)}, c.now)
		}
	case "set_link":
		c.links[text("name")] = arguments["up"].(bool)
	case "closefd":
		return nil, &qmp.Error{Class: qmp.GenericError, Desc: "no such descriptor"}
	}
	return map[string]any{}, nil
}

// settle lets time pass until the machine needs nothing more, at most for a while.
func (c *cardTalk) settle(while time.Duration) {
	for end := c.now.Add(while); ; {
		step := c.machine.Next(c.want, c.now)
		for _, w := range step.Cards {
			c.opened++
			c.machine.CardOpened(w, OpenCard{}, nil, c.now)
		}
		c.closed = append(c.closed, step.Released...)
		for _, r := range step.Requests {
			value, err := c.answer(r.Command)
			reply, fault := json.Marshal(value)
			require.NoError(c.t, fault)
			c.machine.Answer(r, reply, err, c.now)
		}
		switch {
		case len(step.Requests) > 0 || len(step.Cards) > 0:
		case step.Wake.IsZero() || step.Wake.After(end):
			c.now = end
			return
		default:
			c.now = step.Wake
		}
	}
}

// card returns a wanted card.
func card(index int, mac string) Card {
	return Card{
		Index: index, MAC: mac, Netdev: map[string]any{"type": "user"},
		Device: map[string]any{"driver": "virtio-net-pci", "mac": mac},
	}
}

const macOne, macTwo = "02:00:00:00:00:01", "02:00:00:00:00:02"

// The last free port is used first. A card keeps its port when another card before it disappears.
func TestCardsAreIdentifiedByTheirAddress(t *testing.T) {
	t.Parallel()
	c := newCardTalk(t, Start{})
	c.want.Cards = []Card{card(1, macOne), card(2, macTwo)}
	c.settle(time.Minute)
	require.Len(t, c.devices, 2)
	second := pluggedCard{place: 0, mark: card(2, macTwo).identityMark(), mac: macTwo}.id(cardPrefix)
	require.True(t, c.devices[second])
	c.want.Cards = []Card{card(1, macTwo)} // at another position
	c.settle(time.Minute)
	require.Equal(t, map[string]bool{second: true}, c.devices)
	require.Len(t, c.netdevs, 1)
	require.Equal(t, []string{macOne}, c.closed)
	require.Equal(t, status.NICs{{MAC: macTwo, State: status.NICPlugged}}, c.machine.Facts().NICs)
	require.Equal(t, 2, c.opened)
}

// A guest that doesn't release a card is asked again. After a while, the status reports it as a problem.
func TestAGuestThatKeepsACard(t *testing.T) {
	t.Parallel()
	c := newCardTalk(t, Start{})
	c.want.Cards = []Card{card(1, macOne)}
	c.settle(time.Minute)
	c.deaf, c.want.Cards = true, []Card{}
	c.settle(20 * time.Second)
	f := c.machine.Facts()
	require.Equal(t, "waiting for the guest to release the network card", f.NICs[0].Message)
	require.Empty(t, f.Problems)
	c.settle(time.Minute)
	f = c.machine.Facts()
	require.Equal(t, status.NICUnplugging, f.NICs[0].State)
	require.Contains(t, f.NICs[0].Message, "has not released the network card for")
	require.Equal(t, "vm.network", f.Problems[0].Path)
	require.Contains(t, f.Problems[0].Message, macOne)
	require.Empty(t, c.closed, "its tap is in use")
	c.deaf = false
	c.settle(10 * time.Minute)
	require.Empty(t, c.devices)
	require.Empty(t, c.netdevs)
	require.Empty(t, c.machine.Facts().NICs)
	require.Empty(t, c.machine.Facts().Problems)
	require.Equal(t, []string{macOne}, c.closed)
}

// A failed attempt leaves nothing behind, and is repeated in another port.
func TestACardThatQEMURefuses(t *testing.T) {
	t.Parallel()
	c := newCardTalk(t, Start{})
	c.broken, c.want.Cards = "device_add", []Card{card(1, macOne)}
	c.settle(time.Second / 4)
	require.Empty(t, c.netdevs)
	require.Equal(t, []string{macOne}, c.closed)
	f := c.machine.Facts()
	require.Equal(t, status.NICFailed, f.NICs[0].State)
	require.Equal(t, Problem{"vm.network[1]", "plug in the network card: broken"}, f.Problems[0])
	c.broken = ""
	c.settle(time.Minute)
	require.Equal(t, status.NICPlugged, c.machine.Facts().NICs[0].State)
	require.Empty(t, c.machine.Facts().Problems)
	require.True(t, c.devices[pluggedCard{place: 0, mark: card(1, macOne).identityMark(), mac: macOne}.id(cardPrefix)])
}

// A new runner finds the cards, and the backends that an earlier runner has left. It sets the links again.
func TestCardsOfAnEarlierRunner(t *testing.T) {
	t.Parallel()
	c := newCardTalk(t, Start{Running: true})
	one, two := card(1, macOne), card(2, macTwo)
	one.Down = true
	kept := pluggedCard{place: 1, mark: one.identityMark(), mac: macOne}
	left := pluggedCard{place: 0, mark: two.identityMark(), mac: macTwo}
	c.devices[kept.id(cardPrefix)] = true
	c.netdevs[kept.id(backendPrefix)], c.netdevs[left.id(backendPrefix)] = true, true
	c.want.Cards = []Card{one}
	c.settle(time.Minute)
	require.Equal(t, map[string]bool{kept.id(cardPrefix): true}, c.devices)
	require.Equal(t, map[string]bool{kept.id(backendPrefix): true}, c.netdevs)
	require.Equal(t, map[string]bool{kept.id(cardPrefix): false}, c.links)
	require.Zero(t, c.opened)
	require.Equal(t, []string{macTwo}, c.closed)
	c.want.Cards = []Card{card(1, macOne)} // up
	c.settle(time.Minute)
	require.Equal(t, map[string]bool{kept.id(cardPrefix): true}, c.links)
}

// A changed card stays as it is until it is removed or the VM is restarted. Cards without a port wait.
func TestCardsThatCannotBeAsConfigured(t *testing.T) {
	t.Parallel()
	c := newCardTalk(t, Start{})
	c.want.Cards = []Card{card(1, macOne), card(2, macTwo), card(3, "02:00:00:00:00:03")}
	c.settle(time.Minute)
	f := c.machine.Facts()
	require.Equal(t, status.NICFailed, f.NICs[2].State)
	require.Contains(t, f.Problems[0].Message, "all 2 places")
	require.Equal(t, "vm.network[3]", f.Problems[0].Path)
	changed := card(1, macOne)
	changed.Netdev["net"] = "10.3.0.0/24"
	c.want.Cards = []Card{changed}
	c.settle(time.Minute)
	f = c.machine.Facts()
	require.Equal(t, status.NICPlugged, f.NICs[0].State)
	require.Contains(t, f.Problems[0].Message, "another configuration")
	require.Equal(t, "vm.network[1]", f.Problems[0].Path)
}
