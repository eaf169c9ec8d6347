package adopt

import (
	"slices"
	"strconv"
	"strings"

	"vmop/authoring/compare"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// An edit is one change of a type, in the terms of its language.
type edit struct {
	// remove are selectors for replace(remove = …).
	remove []string
	// selector and set are the arguments of change. The selector "-machine" means replace(machine = …).
	selector string
	set      []setting
	// origin is the origin of the changed option.
	origin plan.Origin
	// replace is an option for replace.
	replace *plan.Option
	// add are options for a new part, in this order.
	add []plan.Option
	// causes are the differences that the edit removes.
	causes []string
}

// A setting is a property with its new values; none removes the property.
type setting struct {
	key    string
	values []string
}

// name returns a description of a difference that stays the same when the plan changes.
func (d *difference) name() string {
	o := d.want
	if o == nil {
		o = d.have
	}
	return strconv.Itoa(d.from) + " " + o.Flag + " " + o.ID() + " " + o.Value + " " + d.key
}

// editsFor returns the edits that remove the differences between a plan and a command line.
func (w *wish) editsFor(p *plan.Plan, list []difference) []edit {
	var edits []edit
	byOption := map[int]int{} // index in the plan, index in edits
	for i := range list {
		d := &list[i]
		if d.kept != "" {
			continue
		}
		switch {
		case d.have == nil:
			edits = append(edits, edit{add: []plan.Option{w.newOption(p, d.want)}, causes: []string{d.name()}})
			continue
		case d.want == nil:
			edits = append(edits, edit{remove: []string{selectorIn(p, d.have)}, causes: []string{d.name()}})
			continue
		}
		at, known := byOption[d.index]
		if !known {
			at = len(edits)
			byOption[d.index] = at
			edits = append(edits, edit{selector: selectorIn(p, d.have), origin: d.have.Origin})
		}
		e := &edits[at]
		e.causes = append(e.causes, d.name())
		key := d.key
		if d.have.Flag == "-machine" && key == "" {
			key = "type"
		}
		if key == "" || d.have.Flag != "-machine" && !d.have.List {
			w.replaceWhole(p, e, d)
			continue
		}
		e.set = append(e.set, setting{key, d.now})
	}
	if !w.exact {
		assignSlots(p, edits)
	}
	return groupAdded(separateAmbiguous(p, edits))
}

// freeSlots are the PCI slots that the library leaves to types; see vmtypes/lib/pci.star.
var freeSlots = []string{"0x19", "0x1a", "0x1d", "0x1e"}

// assignSlots gives an address to each new PCI device without one, so that it doesn't depend on the devices before it.
func assignSlots(p *plan.Plan, edits []edit) {
	var devices []*plan.Option
	for i := range edits {
		for j := range edits[i].add {
			o := &edits[i].add[j]
			_, hasBus := o.Get("bus")
			_, hasAddress := o.Get("addr")
			if o.Flag == "-device" && qemuopt.IsPCI(compare.FullDriver(o.Value)) && !hasBus && !hasAddress {
				devices = append(devices, o)
			}
		}
	}
	slots := slices.DeleteFunc(slices.Clone(freeSlots), func(slot string) bool {
		return slices.ContainsFunc(p.QEMU.Args, func(o plan.Option) bool {
			address, _ := o.Get("addr")
			return o.Flag == "-device" && (address == slot || strings.HasPrefix(address, slot+"."))
		})
	})
	const functions = 8
	if len(slots) == 0 || len(devices) > len(slots)*functions {
		return
	}
	for i, o := range devices {
		address := slots[i%len(slots)]
		if function := i / len(slots); function > 0 {
			address += "." + strconv.Itoa(function)
		} else if _, given := o.Get("multifunction"); !given && len(devices) > len(slots) {
			o.Properties = append(o.Properties, plan.Property{Key: "multifunction", Value: "on"})
		}
		o.Properties = append(o.Properties, plan.Property{Key: "addr", Value: address})
	}
}

// replaceWhole replaces an option as a whole, because its driver changes or it has no properties for change.
func (w *wish) replaceWhole(p *plan.Plan, e *edit, d *difference) {
	if e.replace != nil || len(e.add) > 0 {
		return // the new option has all properties already
	}
	o := *d.want
	o.Origin = nil
	if d.have.Flag == "-device" && !w.exact {
		o = replacedDevice(d.have, d.want)
	}
	if !d.have.List { // in the notation of the type
		words := o.Words(descriptorName)
		o = plan.Option{Flag: o.Flag, Value: strings.Join(words[1:], " ")}
	}
	if o.ID() == "" && o.List && o.Flag == "-device" || countFlag(p, d.have.Flag) > 1 && o.ID() == "" {
		e.remove, e.add, e.set = []string{e.selector}, []plan.Option{o}, nil
		return
	}
	e.replace = &o
}

func countFlag(p *plan.Plan, flag string) (n int) {
	for i := range p.QEMU.Args {
		if p.QEMU.Args[i].Flag == flag {
			n++
		}
	}
	return n
}

// isPlace reports whether a property of a device is its address.
func isPlace(key string) bool {
	return slices.Contains([]string{
		"bus", "addr", "multifunction", "port", "unit", "lun", "scsi-id", "channel",
		"nr", "index", "cad",
		"chassis",
	}, key)
}

// replacedDevice returns a device with the driver and the properties of another device, at the same place if both
// are PCI devices.
func replacedDevice(have, want *plan.Option) plan.Option {
	o := plan.Option{Flag: have.Flag, Value: want.Value, List: true}
	bothPCI := qemuopt.IsPCI(have.Value) && qemuopt.IsPCI(want.Value)
	for _, p := range have.Properties {
		isReference := qemuopt.Reference(have.Flag, have.Value, p.Key) != ""
		if _, wanted := want.Get(p.Key); p.Key == "iothread" && !wanted {
			continue // only some drivers have one
		}
		isCommon := slices.Contains([]string{"id", "mac", "bootindex", "serial"}, p.Key)
		if isReference || isCommon || bothPCI && isPlace(p.Key) {
			o.Properties = append(o.Properties, p)
		}
	}
	for _, p := range want.Properties {
		at := slices.IndexFunc(o.Properties, func(q plan.Property) bool { return q.Key == p.Key })
		switch {
		case isPlace(p.Key) || p.Key == "id" || at >= 0 && qemuopt.Reference(have.Flag, have.Value, p.Key) != "":
		case at >= 0:
			o.Properties[at] = p
		default:
			o.Properties = append(o.Properties, p)
		}
	}
	return o
}

// newOption returns an option to add. On a bus that only the other machine has, a device has no address here.
func (w *wish) newOption(p *plan.Plan, want *plan.Option) plan.Option {
	o := *want
	o.Properties = slices.Clone(want.Properties)
	if !w.exact && o.Flag == "-device" {
		o.Properties = slices.DeleteFunc(o.Properties, func(p plan.Property) bool {
			return fileEffect(&o, p.Key) && !strings.HasPrefix(p.Value, "/dev/")
		})
	}
	bus, given := o.Get("bus")
	name, _, _ := strings.Cut(bus, ".")
	if w.exact || o.Flag != "-device" || !given {
		return o
	}
	exists := slices.ContainsFunc(p.QEMU.Args, func(other plan.Option) bool {
		return other.Flag == "-device" && other.ID() == name
	}) || slices.ContainsFunc(w.wants, func(other Want) bool {
		return other.Flag == "-device" && other.ID() == name && w.reasonAgainst(&other.Option) == ""
	})
	isRoot := name == "pcie" || name == "pci" || name == "isa" || name == "ide" || name == "virtio-mmio-bus"
	o.Properties = slices.DeleteFunc(o.Properties, func(p plan.Property) bool {
		return !exists && (p.Key == "bus" && (!isRoot || strings.HasPrefix(name, "pci")) || p.Key == "addr" && !isRoot)
	})
	return o
}

// selectorIn returns the shortest words that change and replace accept for an option.
func selectorIn(p *plan.Plan, o *plan.Option) string {
	switch {
	case o.ID() != "":
		return o.Flag + " " + o.ID()
	case o.Value != "" && countFlag(p, o.Flag) > 1:
		return o.Flag + " " + o.Value
	}
	return o.Flag
}

// selects reports whether a selector matches an option, as in change.
func selects(selector string, o *plan.Option) bool {
	flag, name, named := strings.Cut(selector, " ")
	return flag == o.Flag && (!named || name == o.ID() || o.ID() == "" && name == o.Value)
}

// separateAmbiguous replaces edits of options that have the same selector as others: it removes all of them and adds
// them again in their new form.
func separateAmbiguous(p *plan.Plan, edits []edit) []edit {
	var list []edit
	bulk := map[string]int{} // selector, index in list
	for _, e := range edits {
		selector := e.selector
		if selector == "" && len(e.remove) == 1 {
			selector = e.remove[0]
		}
		var matched []plan.Option
		for i := range p.QEMU.Args {
			if selector != "" && selects(selector, &p.QEMU.Args[i]) {
				matched = append(matched, p.QEMU.Args[i])
			}
		}
		if len(matched) < 2 {
			list = append(list, e)
			continue
		}
		at, known := bulk[selector]
		if !known {
			at = len(list)
			bulk[selector] = at
			list = append(list, edit{remove: []string{selector}, add: matched})
		}
		into := &list[at]
		into.causes = append(into.causes, e.causes...)
		into.applyTo(e)
	}
	return list
}

// applyTo changes one of the options that are added again. The origin identifies it.
func (e *edit) applyTo(one edit) {
	at := slices.IndexFunc(e.add, func(o plan.Option) bool { return slices.Equal(o.Origin, one.origin) })
	if at < 0 {
		return
	}
	switch {
	case one.replace != nil:
		e.add[at] = *one.replace
	case len(one.add) > 0:
		e.add = slices.Replace(e.add, at, at+1, one.add...)
	case len(one.set) > 0:
		for _, s := range one.set {
			e.add[at] = withSetting(e.add[at], s)
		}
	}
}

// withSetting returns an option with other values of a property.
func withSetting(o plan.Option, s setting) plan.Option {
	list := slices.DeleteFunc(slices.Clone(o.Properties), func(p plan.Property) bool { return p.Key == s.key })
	for _, value := range s.values {
		list = append(list, plan.Property{Key: s.key, Value: value})
	}
	o.Properties = list
	return o
}

// groupAdded combines added options that refer to each other, because one is invalid without the other.
func groupAdded(edits []edit) []edit {
	var list []edit
	for _, e := range edits {
		if len(e.add) == 0 || len(e.remove) > 0 {
			list = append(list, e)
			continue
		}
		into := -1
		for i := 0; i < len(list); i++ {
			if len(list[i].add) == 0 || len(list[i].remove) > 0 || !refers(list[i].add, e.add) && !refers(e.add,
				list[i].add) {
				continue
			}
			if into < 0 {
				into = i
				list[i].add = append(list[i].add, e.add...)
				list[i].causes = append(list[i].causes, e.causes...)
				continue
			}
			list[into].add = append(list[into].add, list[i].add...)
			list[into].causes = append(list[into].causes, list[i].causes...)
			list = slices.Delete(list, i, i+1)
			i--
		}
		if into < 0 {
			list = append(list, e)
		}
	}
	return list
}

// refers reports whether one of the users refers to one of the options.
func refers(users, options []plan.Option) bool {
	for i := range users {
		for _, p := range users[i].Properties {
			kind := qemuopt.Reference(users[i].Flag, users[i].Backend(), p.Key)
			id := p.Value
			if p.Key == "bus" {
				kind = qemuopt.DeviceID
				id, _, _ = strings.Cut(id, ".")
			}
			if kind == "" {
				continue
			}
			if slices.ContainsFunc(options, func(o plan.Option) bool {
				row := qemuopt.Flag(o.Flag)
				return row != nil && row.Makes == kind && o.ID() == id
			}) {
				return true
			}
		}
	}
	return false
}
