package prepare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/runner/machine/changes"
	"vmop/runner/machine/reconcile"
	"vmop/vmspec"
	"vmop/vmtypes/confinement"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// CardPlace is the port of a network card that was plugged in while the VM was running. The card is plugged into the
// same port again when the VM starts, because guests name network cards after their place.
//
// See docs/decisions/0196-network-cards.md.
type CardPlace struct {
	// MAC identifies the card.
	MAC string `json:"mac"`
	// Place is the index of the port in the rule's buses.
	Place int `json:"place"`
	// Tap is the tap of the card's backend; nil if it uses none.
	Tap *plan.Tap `json:"tap,omitempty"`
}

// ReadCards returns the cards in a data directory.
func ReadCards(dataDir string) (list []CardPlace, err error) {
	file := filepath.Join(dataDir, cardsFile)
	text, err := readfile.ReadFile(file, LargestNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the ports of network cards: %w; remove %s: the cards then get other ports",
			err, file)
	}
	return list, nil
}

// KeepCards stores the cards in a data directory.
func KeepCards(dataDir string, list []CardPlace) error {
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dataDir, cardsFile), append(text, '\n'), 0o600, atomicfile.Synced)
}

// placedNetworks returns the indices of the networks with cards that are plugged in when the VM starts.
func (vm *VM) placedNetworks(networks []vmspec.Network) (indices []int) {
	for i, n := range networks {
		if slices.ContainsFunc(vm.Places, func(p CardPlace) bool { return p.MAC == macText(n.MAC) }) {
			indices = append(indices, i)
		}
	}
	return indices
}

// takeOut moves networks from Spec to Networks, by their indices in the configuration.
func (vm *VM) takeOut(indices []int) {
	vm.Networks, vm.fixed = vm.Spec.Network, nil
	kept := vm.Spec.Network[:0:0]
	for i, n := range vm.Networks {
		if !slices.Contains(indices, i) {
			kept, vm.fixed = append(kept, n), append(vm.fixed, i)
		}
	}
	vm.Spec.Network = kept
}

// NetworkIndex returns the index in the configuration of a network of Spec. The network of an earlier configuration
// keeps its index.
func (vm *VM) NetworkIndex(i int) int {
	if i < len(vm.fixed) {
		return vm.fixed[i]
	}
	return i
}

// WholeSpec returns the vm section with all networks.
func (vm *VM) WholeSpec() vmspec.Spec {
	if vm.Networks == nil {
		return vm.Spec
	}
	spec := vm.Spec
	spec.Network = vm.Networks
	return spec
}

// planStartCards computes the cards that are plugged in when the VM starts. Networks with cards that the machine
// doesn't take are part of the plan again.
func (vm *VM) planStartCards(ctx context.Context, vmType *evaluate.Member, opts Options) error {
	taken := vm.placedNetworks(vm.Networks)
	if len(taken) == 0 {
		return nil
	}
	if err := vm.planWhole(ctx, vmType); err != nil {
		return err
	}
	if err := vm.Judge(ctx, opts, vm.WholeSpec(), vm.whole); err != nil {
		return err
	}
	rule, _ := vm.Plan.Rules.NICs()
	matches := changes.MatchNetworks(vm.Spec.Network, vm.Networks, vm.PluggedMACs()...)
	possible := changes.Pluggable(vm.Plan.Rules, vm.Networks, matches)
	var cards []reconcile.Card
	var left []CardPlace
	for _, i := range taken {
		if !slices.Contains(possible, i) {
			continue
		}
		c, err := vm.planCard(ctx, vmType, vm, vm.Networks[i], i)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		at := slices.IndexFunc(vm.Places, func(p CardPlace) bool { return p.MAC == c.MAC })
		if err == nil && vm.Places[at].Place < len(rule.Buses) {
			cards, left = append(cards, c), append(left, vm.Places[at])
		}
	}
	if len(cards) == len(taken) {
		vm.NICs = cards
		return nil
	}
	vm.Places, vm.Spec.Network, vm.whole = left, vm.Networks, nil
	vm.takeOut(vm.placedNetworks(vm.Networks))
	if err := vm.launchPlan(ctx, vmType); err != nil {
		return err
	}
	return vm.planStartCards(ctx, vmType, opts)
}

// planCards computes the cards that can be plugged into a running machine. The other networks need a restart.
func (vm *VM) planCards(ctx context.Context, running *VM) error {
	plugged, err := ReadCards(running.DataDir)
	if err != nil {
		return err
	}
	var macs []string
	for _, p := range plugged {
		macs = append(macs, p.MAC)
	}
	vm.matches = changes.MatchNetworks(running.Spec.Network, vm.Spec.Network, macs...)
	possible := changes.Pluggable(running.Plan.Rules, vm.Spec.Network, vm.matches)
	vm.Unpluggable = map[int]string{}
	if len(possible) == 0 {
		vm.takeOut(nil)
		return nil
	}
	types := evaluate.NewGroup(ctx)
	defer types.Close()
	vmType := types.AddKept(running.Pin.Archive)
	var taken []int
	for _, i := range possible {
		c, err := vm.planCard(ctx, vmType, running, vm.Spec.Network[i], i)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			vm.Unpluggable[i] = err.Error()
			continue
		}
		taken, vm.NICs = append(taken, i), append(vm.NICs, c)
	}
	vm.takeOut(taken)
	return nil
}

// planWhole computes the plan with all networks, if it differs.
func (vm *VM) planWhole(ctx context.Context, vmType *evaluate.Member) (err error) {
	if len(vm.Networks) > len(vm.Spec.Network) {
		vm.whole, err = vmType.Launch(ctx, vm.WholeSpec(), vm.Host())
	}
	return vm.Locate(err)
}

// planCard computes the card of a network. running is the machine without it; it may be about to start.
func (vm *VM) planCard(ctx context.Context, vmType *evaluate.Member, running *VM, n vmspec.Network, i int,
) (c reconcile.Card, err error) {
	c = reconcile.Card{Index: i, MAC: macText(n.MAC), Down: n.Link == vmspec.LinkDown}
	hasTap := n.Type == vmspec.NetworkTap || n.Type == vmspec.NetworkMasquerade
	if configured := vm.Config.VM.Network; hasTap && (i >= len(configured) || configured[i].Ifname == "") {
		n.Ifname = vmspec.PluggedIfname(running.Spec.UUID, c.MAC)
	}
	for _, t := range running.Plan.Taps {
		if hasTap && t.Name == n.Ifname {
			return c, fmt.Errorf("the tap %s belongs to another network card until the VM is restarted", t.Name)
		}
	}
	spec := running.Spec
	base, err := vmType.Launch(ctx, spec, running.Host())
	if err != nil {
		return c, err
	}
	spec.Network = append(slices.Clone(spec.Network), n)
	made, err := vmType.Launch(ctx, spec, running.Host())
	if err != nil {
		return c, err
	}
	added, err := plan.NICBetween(base, made)
	if err != nil {
		return c, err
	}
	c.Netdev, c.Device, c.Tap, c.Several = added.Netdev, added.Device, added.Tap, added.Several
	if vm == running { // QEMU is started with all permissions
		return c, nil
	}
	facts := running.beyondThePlan()
	facts.HostLoopback = facts.HostLoopback || spec.ReachesLoopback(vmspec.NetworkUser)
	is, must := running.ConfinementOf(len(running.Plan.Helpers)), confinement.OfProcess(made, facts, len(made.Helpers))
	if missing := is.Lacks(must); missing != "" {
		return c, fmt.Errorf("QEMU was started without permission for it (%s)", missing)
	}
	return c, nil
}

// RefuseLinks returns an error if the configuration has a link state that a machine, running or about to start, can't
// set.
func (vm *VM) RefuseLinks(running *VM) error {
	var faults []vmspec.Fault
	possible := map[int]bool{}
	for _, r := range running.Plan.Rules {
		if l, is := r.(plan.Link); is {
			possible[l.Network] = true
		}
	}
	for i, match := range vm.matchesIn(running) {
		if match >= 0 && !possible[match] && vm.Networks[i].Link == vmspec.LinkDown {
			faults = append(faults, vmspec.Fault{
				Path:    fmt.Sprintf("vm.network[%d].link", i),
				Message: "can't be down: the VM type has no rule for the link of this network card",
				Hint:    "add hotplug.link to the VM type, or remove link",
			})
		}
	}
	return vm.Config.Locate(faults)
}

// links returns the wanted link states of the cards that a machine was started with, by their index in its Spec.
func (vm *VM) links(running *VM) map[int]bool {
	states := map[int]bool{}
	for i, match := range vm.matchesIn(running) {
		if match >= 0 {
			states[match] = vm.Networks[i].Link != vmspec.LinkDown
		}
	}
	return states
}

// matchesIn returns the indices of Networks in a machine's Spec.Network, or -1.
func (vm *VM) matchesIn(running *VM) []int {
	if vm != running {
		return vm.matches
	}
	matches := make([]int, len(vm.Networks))
	for i := range matches {
		matches[i] = slices.Index(vm.fixed, i)
	}
	return matches
}

// PluggedMACs returns the hardware addresses of the networks that are missing in the plan.
func (vm *VM) PluggedMACs() (macs []string) {
	for _, p := range vm.Places {
		macs = append(macs, p.MAC)
	}
	return macs
}

// SetPluggedMACs sets Places to cards with these hardware addresses, for a machine that runs.
func (vm *VM) SetPluggedMACs(macs []string) {
	vm.Places = nil
	for _, mac := range macs {
		vm.Places = append(vm.Places, CardPlace{MAC: mac})
	}
}

// cardTaps returns the taps of plugged cards, by hardware address.
func (vm *VM) cardTaps() map[string]string {
	taps := map[string]string{}
	for _, c := range vm.NICs {
		if c.Tap != nil {
			taps[c.MAC] = c.Tap.Name
		}
	}
	return taps
}
