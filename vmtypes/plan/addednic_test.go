package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// listOption returns an option with properties, given as pairs of key and value.
func listOption(flag, value string, pairs ...string) Option {
	o := Option{Flag: flag, Value: value, List: true}
	for i := 0; i < len(pairs); i += 2 {
		o.Properties = append(o.Properties, Property{Key: pairs[i], Value: pairs[i+1]})
	}
	return o
}

func TestNICBetween(t *testing.T) {
	t.Parallel()
	rng := listOption("-device", "virtio-rng-pci", "id", "rng0")
	user := listOption("-netdev", "user", "id", "net1", "net", "10.3.0.0/24",
		"hostfwd", "tcp::80-:80", "hostfwd", "tcp::81-:81")
	card := listOption("-device", "virtio-net-pci", "id", "nic1", "netdev", "net1",
		"mac", "02:00:00:00:00:01", "addr", "0x8", "multifunction", "on", "mq", "on", "vectors", "6")
	without := &Plan{QEMU: Process{Args: []Option{rng}}}
	with := func(options ...Option) *Plan { return &Plan{QEMU: Process{Args: append([]Option{rng}, options...)}} }

	n, err := NICBetween(without, with(user, card))
	require.NoError(t, err)
	require.Equal(t, AddedNIC{
		Netdev: map[string]any{"type": "user", "net": "10.3.0.0/24", "hostfwd": []any{
			map[string]any{"str": "tcp::80-:80"}, map[string]any{"str": "tcp::81-:81"},
		}},
		Device: map[string]any{
			"driver": "virtio-net-pci", "mac": "02:00:00:00:00:01", "mq": true, "vectors": json.Number("6"),
		},
	}, n)

	tap := listOption("-netdev", "tap", "id", "net1", "vhost", "on")
	tap.Properties = append(tap.Properties, Property{Key: "fds", Descriptor: "vm1", Queues: 2})
	made := with(tap, card)
	made.Taps = []Tap{{Name: "vm1", Bridge: "br0", Queues: 2}}
	n, err = NICBetween(without, made)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"type": "tap"}, n.Netdev)
	require.True(t, n.Several)
	require.Equal(t, "vm1", n.Tap.Name)

	helped := with(user, card)
	helped.Helpers = []Process{{Name: "passt"}}
	usb := listOption("-device", "usb-net", "id", "nic1", "netdev", "net1")
	shared := listOption("-device", "virtio-net-pci", "id", "nic1", "netdev", "net0")
	for reason, made := range map[string]*Plan{
		"a process next to QEMU":               helped,
		"the VM type also changes -device":     {QEMU: Process{Args: []Option{user, card}}},
		"the VM type also adds -device":        with(user, card, listOption("-device", "pvpanic", "id", "p")),
		"no network card with its own backend": with(user),
		"usb-net is not on the PCI bus":        with(user, usb),
		"uses another backend":                 with(user, shared),
	} {
		_, err := NICBetween(without, made)
		require.ErrorContains(t, err, reason)
	}
}
