package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/qemuopt"
)

// An AddedNIC is a network card that a plan contains in addition to another plan.
type AddedNIC struct {
	// Netdev and Device are the arguments of netdev_add and device_add, without IDs, bus and descriptors.
	Netdev, Device map[string]any
	// Tap is the tap of the backend; nil if it uses none.
	Tap *Tap
	// Several means that QEMU expects a list of descriptors, one per queue of the tap.
	Several bool
}

// NICBetween returns the network card that the plan with has in addition to the plan without. Its error explains why
// the card can't be plugged in.
//
// The kernel's vhost is left out: QEMU would have to open a device of the host for it, which it may do only at its
// start.
func NICBetween(without, with *Plan) (n AddedNIC, err error) {
	if len(with.Helpers) != len(without.Helpers) || len(with.Listeners) != len(without.Listeners) {
		return n, errors.New("it needs a process next to QEMU, which is started only with the VM")
	}
	if len(with.Files) != len(without.Files) || len(with.Sockets) != len(without.Sockets) {
		return n, errors.New("the VM type also adds files or sockets")
	}
	gone, added := optionsWithout(without.QEMU.Args, with.QEMU.Args), optionsWithout(with.QEMU.Args, without.QEMU.Args)
	if len(gone) > 0 {
		return n, fmt.Errorf("the VM type also changes %s", strings.Join(gone[0].Words(descriptorName), " "))
	}
	var netdev, device *Option
	for i := range added {
		switch o := &added[i]; {
		case o.Flag == "-netdev" && netdev == nil:
			netdev = o
		case o.Flag == "-device" && device == nil:
			device = o
		default:
			return n, fmt.Errorf("the VM type also adds %s", strings.Join(o.Words(descriptorName), " "))
		}
	}
	if netdev == nil || device == nil {
		return n, errors.New("the VM type adds no network card with its own backend")
	}
	if of, _ := device.Get("netdev"); of != netdev.ID() {
		return n, errors.New("the card of the VM type uses another backend")
	}
	if bus, has := device.Get("bus"); has || strings.HasPrefix(device.Backend(), "usb-") {
		return n, fmt.Errorf("%s is not on the PCI bus (%s)", device.Backend(), bus)
	}
	n.Netdev, n.Several, err = netdevArguments(netdev)
	n.Device = deviceArguments(device)
	for _, t := range with.Taps {
		if !slices.ContainsFunc(without.Taps, func(u Tap) bool { return u.Name == t.Name }) {
			t.Origin = nil
			n.Tap = &t
		}
	}
	return n, err
}

// optionsWithout returns the options of a list that are missing in another, structured.
func optionsWithout(list, other []Option) (rest []Option) {
	known := map[string]int{}
	text := func(o *Option) string { return strings.Join(o.Words(descriptorName), "\x00") }
	for i := range other {
		known[text(&other[i])]++
	}
	for i := range list {
		if known[text(&list[i])]--; known[text(&list[i])] < 0 {
			rest = append(rest, list[i].Structured())
		}
	}
	return rest
}

// netdevArguments returns the arguments of netdev_add.
func netdevArguments(o *Option) (arguments map[string]any, several bool, err error) {
	arguments = map[string]any{"type": o.Backend()}
	for _, p := range o.Properties {
		switch {
		case p.Descriptor != "" && p.Key == "fds":
			several = true
		case p.Descriptor != "" && p.Key == "fd", p.Key == "id", p.Key == "type", p.Key == "vhost":
		case p.Descriptor != "":
			return nil, false, fmt.Errorf("its backend has the descriptor %s", p.Key)
		case p.Key == "hostfwd" || p.Key == "guestfwd":
			before, _ := arguments[p.Key].([]any)
			arguments[p.Key] = append(before, map[string]any{"str": p.Value})
		default:
			arguments[p.Key] = typedValue(p.Value)
		}
	}
	return arguments, several, nil
}

// deviceArguments returns the arguments of device_add.
func deviceArguments(o *Option) map[string]any {
	arguments := map[string]any{"driver": o.Backend()}
	for _, p := range o.Properties {
		switch p.Key {
		case "id", "driver", "netdev", "addr", "multifunction":
		case "mac":
			arguments[p.Key] = p.Value
		default:
			arguments[p.Key] = typedValue(p.Value)
		}
	}
	return arguments
}

// typedValue returns the value of a property in the form for QMP.
func typedValue(text string) any {
	if on, is := qemuopt.Bool(text); is {
		return on
	}
	if _, err := strconv.ParseUint(text, 10, 63); err == nil {
		return json.Number(text)
	}
	return text
}
