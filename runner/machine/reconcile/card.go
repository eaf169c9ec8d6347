package reconcile

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"vmop/qmp"
	"vmop/runner/machine/usernet"
	"vmop/vmtypes/plan"
)

// Card is a wanted network card that is plugged in while the machine runs.
type Card struct {
	// Index is the network's index in vm.network.
	Index int
	// MAC is the card's hardware address, which identifies it.
	MAC string
	// Down reports that the card must not be connected to its network.
	Down bool
	// Netdev and Device are the arguments of netdev_add and device_add, without IDs, bus and descriptors.
	Netdev, Device map[string]any
	// Tap is the tap that the backend uses; nil if it uses none.
	Tap *plan.Tap
	// Several means that QEMU expects a list of descriptors, one per queue of the tap.
	Several bool
}

// Path returns the path of the card's network in the configuration.
func (c Card) Path() string { return fmt.Sprintf("vm.network[%d]", c.Index) }

// identityMark returns a short hash of the card's properties. The state of its link can change.
func (c Card) identityMark() string {
	sum := fnv.New32a()
	var tap plan.Tap
	if c.Tap != nil {
		tap = *c.Tap
		tap.Origin = nil
	}
	text, err := json.Marshal([]any{c.Netdev, c.Device, tap})
	fmt.Fprintf(sum, "%s %v", text, err)
	return fmt.Sprintf("%07x", sum.Sum32()>>4)
}

// HasID reports whether a device with this ID has exactly the card's properties.
func (c Card) HasID(id string) bool {
	p, is := parseCard(cardPrefix, id)
	return is && p.mac == c.MAC && p.mark == c.identityMark()
}

// OpenCard contains the descriptors for a card's backend. It is empty if the backend has no tap.
type OpenCard struct {
	// Queues are the descriptors of the tap, one per queue.
	Queues []*os.File
	// Rules keep the tap's rules alive as long as QEMU holds them.
	Rules []*os.File
}

// Files returns all descriptors.
func (o OpenCard) Files() []*os.File { return slices.Concat(o.Queues, o.Rules) }

// pluggedCard is a network card that was plugged in, according to QEMU.
type pluggedCard struct {
	place     int // index in the rule's buses
	mark, mac string
	// device reports whether the card exists, and netdev whether its backend does.
	device, netdev bool
}

// The prefixes of IDs.
const (
	cardPrefix    = "nic"
	backendPrefix = "net"
)

// bareMAC returns a hardware address without separators.
func bareMAC(mac string) string {
	return strings.ToLower(strings.NewReplacer(":", "", "-", "").Replace(mac))
}

// id returns the ID of the card or of its backend. It contains everything that another runner must know.
func (p pluggedCard) id(prefix string) string {
	return fmt.Sprintf("%s%d-%s-%s", prefix, p.place, p.mark, bareMAC(p.mac))
}

// parseCard returns the card with an ID, and false for another device or backend.
func parseCard(prefix, id string) (p pluggedCard, is bool) {
	rest, is := strings.CutPrefix(id, prefix)
	parts := strings.Split(rest, "-")
	if !is || len(parts) != 3 || len(parts[1]) != markLength || len(parts[2]) != 12 {
		return p, false
	}
	place, err := strconv.ParseUint(parts[0], 10, 8)
	bare, fault := strconv.ParseUint(parts[2], 16, 64)
	if err != nil || fault != nil {
		return p, false
	}
	text := fmt.Sprintf("%012x", bare)
	var octets []string
	for i := 0; i < len(text); i += 2 {
		octets = append(octets, text[i:i+2])
	}
	return pluggedCard{place: int(place), mark: parts[1], mac: strings.Join(octets, ":")}, true
}

// CardOf returns the hardware address of a card that was plugged in while the machine ran, by the ID of its device, and
// the index of its port. plugged is false for other devices.
func CardOf(id string) (mac string, place int, plugged bool) {
	p, plugged := parseCard(cardPrefix, id)
	return p.mac, p.place, plugged
}

// descriptorName returns the name under which QEMU's monitor keeps a descriptor of a card. It depends only on the
// card's address, so that a leftover can be closed.
func descriptorName(mac, kind string, n int) string {
	return fmt.Sprintf("%s%d-%s", kind, n, bareMAC(mac))
}

// The kinds of descriptors, and their maximum number for one card.
const (
	queueKind       = "queue"
	rulesKind       = "rules"
	mostDescriptors = 2 // QEMU itself closes the descriptors of queues with the backend
)

// forgetDescriptors returns the commands that close descriptors that QEMU's monitor keeps for a card. QEMU refuses
// those that do not exist.
func forgetDescriptors(mac string) (commands []qmp.Command) {
	for _, kind := range []string{queueKind, rulesKind} {
		for n := range mostDescriptors {
			commands = append(commands, commandOf("closefd", map[string]any{"fdname": descriptorName(mac, kind, n)}))
		}
	}
	return commands
}

// A Plug contains the commands that plug in a network card.
type Plug struct {
	// Clear removes leftovers of an earlier attempt, and Undo removes leftovers of a failed Do. QEMU may refuse these
	// commands.
	Clear, Undo []qmp.Command
	// Do plugs the card in.
	Do []qmp.Command
}

// PlugOf returns how a card is plugged into the port with an index in the rule's buses.
func PlugOf(rule plan.NICs, c Card, place int, open OpenCard) (p Plug) {
	at := pluggedCard{place: place, mark: c.identityMark(), mac: c.MAC}
	netdev, device := maps.Clone(c.Netdev), maps.Clone(c.Device)
	netdev["id"] = at.id(backendPrefix)
	device["id"], device["netdev"], device["bus"] = at.id(cardPrefix), netdev["id"], rule.Buses[place]
	give := func(kind string, files []*os.File) (names []string) {
		for n, f := range files {
			name := descriptorName(c.MAC, kind, n)
			command := commandOf("getfd", map[string]any{"fdname": name})
			command.File = f
			p.Do, names = append(p.Do, command), append(names, name)
		}
		return names
	}
	if names := give(queueKind, open.Queues); c.Several {
		netdev["fds"] = strings.Join(names, ":")
	} else if len(names) > 0 {
		netdev["fd"] = names[0]
	}
	give(rulesKind, open.Rules)
	remove := commandOf("netdev_del", map[string]any{"id": netdev["id"]})
	p.Clear = append([]qmp.Command{remove}, forgetDescriptors(c.MAC)...)
	p.Undo = p.Clear
	p.Do = append(p.Do, commandOf("netdev_add", netdev), commandOf("device_add", device))
	if c.Down {
		p.Do = append(p.Do, linkCommand(at.id(cardPrefix), false))
	}
	return p
}

// linkCommand returns the command that connects a card to its network, or disconnects it.
func linkCommand(device string, up bool) qmp.Command {
	return commandOf("set_link", map[string]any{"name": device, "up": up})
}

// listCards returns the commands with the answers that readCards decodes.
func listCards() []qmp.Command {
	return []qmp.Command{
		commandOf("qom-list", map[string]any{"path": "/machine/peripheral"}), usernet.Networks(),
	}
}

// readCards returns the cards that were plugged in, and backends that are left of them, by their place.
func readCards(answers []answer) ([]pluggedCard, error) {
	var devices []struct{ Name string }
	if err := answers[0].decodeInto(&devices); err != nil {
		return nil, err
	}
	said, err := answers[1].monitorOutput()
	if err != nil {
		return nil, err
	}
	byID := map[string]pluggedCard{}
	for _, d := range devices {
		if p, is := parseCard(cardPrefix, d.Name); is {
			p.device = true
			byID[p.id("")] = p
		}
	}
	for _, name := range usernet.Names(said) {
		if p, is := parseCard(backendPrefix, name); is {
			p.device, p.netdev = byID[p.id("")].device, true
			byID[p.id("")] = p
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b pluggedCard) int { return a.place - b.place }), nil
}
