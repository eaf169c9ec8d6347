package compare

import (
	"slices"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// An Alignment assigns the options of a command line to the options of a plan with the same role.
type Alignment struct {
	// Options are the options of the command line. Each id, and each reference to an id, is the id in the plan if
	// the option has a partner.
	Options []plan.Option
	// Partner contains, for each of Options, the index of the option with the same role in the plan; -1 if the plan
	// has none.
	Partner []int
}

// Align matches the options of a command line with the options of a plan, independent of their order and their ids.
// Both must be structured (plan.Option.Structured). Devices match by driver and then by kind (a network card matches a
// network card); backends match if their devices match.
func Align(have, want []plan.Option) Alignment {
	a := &aligner{have: have, want: want, partner: make([]int, len(want)), used: make([]bool, len(have))}
	for i := range a.partner {
		a.partner[i] = noPartner
	}
	a.matchAll(func(h, w *plan.Option) int {
		return scoreIf(identityOf(h) == identityOf(w) && h.ID() == w.ID() && sameDriver(h, w))
	})
	a.matchAll(func(h, w *plan.Option) int {
		return scoreIf(h.ID() == "" && w.ID() == "" && h.Flag != "-device" && identityOf(h) == identityOf(w))
	})
	a.followReferences() // of -machine
	a.matchAll(scoreDevices(sameDriver))
	a.followReferences()
	a.matchAll(scoreDevices(sameRole))
	a.followReferences()
	a.matchAll(func(h, w *plan.Option) int {
		return scoreIf(h.ID() != "" && h.ID() == w.ID() && h.Flag != "-device")
	})
	return Alignment{Options: a.renamedOptions(), Partner: a.partner}
}

const noPartner = -1

// aligner is the state of one call of Align.
type aligner struct {
	have, want []plan.Option
	partner    []int  // for each of want, an index in have
	used       []bool // for each of have
}

func scoreIf(same bool) int {
	if same {
		return 1
	}
	return 0
}

// matchAll assigns the options without a partner. score returns 0 if two options do not match. The pairs with the
// highest scores come first, and then those that are first in the command line.
func (a *aligner) matchAll(score func(have, want *plan.Option) int) {
	type match struct{ want, have, score int }
	var matches []match
	for w := range a.want {
		for h := range a.have {
			if a.partner[w] != noPartner || a.used[h] || a.have[h].Flag != a.want[w].Flag {
				continue
			}
			if s := score(&a.have[h], &a.want[w]); s > 0 {
				matches = append(matches, match{w, h, s})
			}
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return b.score - a.score })
	for _, m := range matches {
		if a.partner[m.want] == noPartner && !a.used[m.have] {
			a.partner[m.want], a.used[m.have] = m.have, true
		}
	}
}

// scoreDevices returns a score for two devices that match: one, and one for each equal property. A property that names
// the purpose of a device counts more.
func scoreDevices(match func(have, want *plan.Option) bool) func(have, want *plan.Option) int {
	return func(h, w *plan.Option) int {
		if h.Flag != "-device" || !match(h, w) {
			return 0
		}
		score := 1
		for _, p := range w.Properties {
			value, given := h.Get(p.Key)
			switch {
			case p.Key == "name" && given && value != p.Value:
				return 0 // the ports of different agents
			case !given || value != p.Value:
			case p.Key == "id" || p.Key == "name" || p.Key == "mac":
				score += 10
			default:
				score++
			}
		}
		return score
	}
}

// sameDriver reports whether two options have the same driver or backend.
func sameDriver(h, w *plan.Option) bool {
	return FullDriver(h.Backend()) == FullDriver(w.Backend()) || h.Flag != "-device" && h.Flag != "-object"
}

// sameRole reports whether a machine uses two devices for the same purpose, so that a type can exchange them.
func sameRole(h, w *plan.Option) bool {
	noun := qemuopt.FindDevice(FullDriver(h.Value)).Noun
	switch noun {
	case "", "a USB device", "a serial port", "a device of the host", "a PCI port or bridge", "an input device",
		"a disk controller", "a USB controller", "memory":
		return false // a machine has several of them, with different purposes
	}
	return noun == qemuopt.FindDevice(FullDriver(w.Value)).Noun
}

// FullDriver returns the name of a device for the short names that QEMU also accepts on a machine with PCI.
func FullDriver(driver string) string {
	switch driver {
	case "virtio-net", "virtio-blk", "virtio-scsi", "virtio-serial", "virtio-rng", "virtio-balloon", "virtio-gpu",
		"virtio-9p", "virtio-keyboard", "virtio-mouse", "virtio-tablet":
		return driver + "-pci"
	case "e1000-82540em":
		return "e1000"
	case "lsi":
		return "lsi53c895a"
	case "ahci":
		return "ich9-ahci"
	}
	return driver
}

// followReferences assigns the backends of assigned users to each other, such as the block nodes of a disk.
func (a *aligner) followReferences() {
	for changed := true; changed; {
		changed = false
		for w := range a.want {
			if a.partner[w] == noPartner {
				continue
			}
			user, other := &a.want[w], &a.have[a.partner[w]]
			for _, p := range user.Properties {
				kind := qemuopt.Reference(user.Flag, user.Backend(), p.Key)
				id, given := other.Get(p.Key)
				if kind != "" && given && a.matchBackends(kind, id, p.Value) {
					changed = true
				}
			}
		}
	}
}

// matchBackends assigns the options that define an id on both sides, and reports whether it was possible.
func (a *aligner) matchBackends(kind qemuopt.Kind, haveID, wantID string) bool {
	w, h := findMade(a.want, kind, wantID), findMade(a.have, kind, haveID)
	if w < 0 || h < 0 || a.partner[w] != noPartner || a.used[h] || a.want[w].Flag != a.have[h].Flag {
		return false
	}
	a.partner[w], a.used[h] = h, true
	return true
}

// findMade returns the index of the option that defines an id, or -1.
func findMade(options []plan.Option, kind qemuopt.Kind, id string) int {
	return slices.IndexFunc(options, func(o plan.Option) bool {
		row := qemuopt.Flag(o.Flag)
		return row != nil && row.Makes == kind && id != "" && o.ID() == id
	})
}

// renamedOptions returns the wanted options with the ids of their partners. An option without a partner gets another id
// if the plan uses its id for something else.
func (a *aligner) renamedOptions() []plan.Option {
	names := map[string]string{} // by kind and id
	for w := range a.want {
		row, id := qemuopt.Flag(a.want[w].Flag), a.want[w].ID()
		if row == nil || row.Makes == "" || id == "" {
			continue
		}
		key := string(row.Makes) + " " + id
		switch {
		case a.partner[w] != noPartner:
			if id := a.have[a.partner[w]].ID(); id != "" {
				names[key] = id
			}
		case findMade(a.have, row.Makes, id) >= 0 && names[key] == "":
			names[key] = a.freeID(row.Makes, id)
		}
	}
	list := make([]plan.Option, len(a.want))
	for w := range a.want {
		list[w] = renameOption(a.want[w], names)
		if h := a.partner[w]; h != noPartner && list[w].ID() == "" && a.have[h].ID() != "" {
			list[w].Properties = append(list[w].Properties, plan.Property{Key: "id", Value: a.have[h].ID()})
		}
	}
	return list
}

// freeID returns an id that neither side uses.
func (a *aligner) freeID(kind qemuopt.Kind, id string) string {
	for {
		id += "-2"
		if findMade(a.have, kind, id) < 0 && findMade(a.want, kind, id) < 0 {
			return id
		}
	}
}

// renameOption returns an option with other ids. names maps a kind and an id to the new id.
func renameOption(o plan.Option, names map[string]string) plan.Option {
	o.Properties = slices.Clone(o.Properties)
	row := qemuopt.Flag(o.Flag)
	for i := range o.Properties {
		p := &o.Properties[i]
		kind := qemuopt.Reference(o.Flag, o.Backend(), p.Key)
		switch {
		case row != nil && (p.Key == "id" || p.Key == "node-name"):
			kind = row.Makes
		case o.Flag == "-device" && p.Key == "bus":
			kind = qemuopt.DeviceID
		}
		if kind == "" {
			continue
		}
		id, rest, hasRest := strings.Cut(p.Value, ".")
		if name := names[string(kind)+" "+p.Value]; name != "" {
			p.Value = name
		} else if name := names[string(kind)+" "+id]; name != "" && hasRest && p.Key == "bus" {
			p.Value = name + "." + rest
		}
	}
	return o
}
