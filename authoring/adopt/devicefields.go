package adopt

import (
	"slices"
	"strconv"
	"strings"

	"vmop/authoring/compare"
	"vmop/vmtypes/qemuopt"
)

// deviceFields returns the drives and network cards that the plan lacks.
func (w *wish) deviceFields(missing []int) []candidate {
	var list []candidate
	for _, i := range missing {
		one := &w.wants[i]
		if one.Flag != "-device" {
			continue
		}
		switch noun := qemuopt.FindDevice(one.Value).Noun; {
		case qemuopt.IsNetworkCard(one.Value):
			list = append(list, w.networkField(i)...)
		case noun == "a disk" || noun == "a CD drive":
			if m, found := w.mediumAt(i); found {
				list = append(list, w.driveField(i, m))
			}
		}
	}
	return list
}

// driveField returns an item of vm.drives.
func (w *wish) driveField(device int, m medium) candidate {
	one := &w.wants[device]
	var words []string
	file := m.file
	if file != "" && !w.exact {
		file = placedFile(file)
	}
	key := "file"
	if strings.HasPrefix(file, "/dev/") {
		key = "device"
	}
	if m.isCD {
		words = append(words, "type: ide-cd")
		if strings.HasPrefix(one.Value, "scsi") {
			words = append(words, "bus: scsi")
		}
	}
	if file != "" {
		words = append(words, key+": "+quoteYAML(file))
	}
	if !m.isCD && m.format != "raw" {
		words = append(words, "format: "+quoteYAML(m.format))
	}
	if !m.isCD && m.readOnly {
		words = append(words, "readOnly: true")
	}
	if index := valueOf(one, "bootindex"); index != "" {
		words = append(words, "bootindex: "+index)
	}
	if serial := valueOf(one, "serial"); serial != "" && !m.isCD {
		words = append(words, "serial: "+quoteYAML(serial))
	}
	return candidate{fields: []Field{{"vm.drives[]", "{" + strings.Join(words, ", ") + "}", one.Line}}, about: device}
}

// networkField returns items of vm.network, with the device of the card and without.
func (w *wish) networkField(card int) []candidate {
	one := &w.wants[card]
	at := w.maker(qemuopt.Netdev, valueOf(one, "netdev"))
	if at < 0 {
		return nil
	}
	backend := &w.wants[at]
	words := []string{"type: user"}
	if kind := backend.Backend(); kind != "user" && kind != "passt" {
		words = []string{"type: tap"}
		if bridge := valueOf(backend, "br"); bridge != "" {
			words = append(words, "bridge: "+quoteYAML(bridge))
		}
	}
	if mac := valueOf(one, "mac"); mac != "" {
		words = append(words, "mac: "+quoteYAML(strings.ToLower(mac)))
	}
	var ports []string
	for _, p := range backend.Properties {
		if p.Key == "hostfwd" {
			ports = append(ports, portOf(p.Value))
		}
	}
	if ports = slices.DeleteFunc(ports, func(s string) bool { return s == "" }); len(ports) > 0 {
		words = append(words, "ports: ["+strings.Join(ports, ", ")+"]")
	}
	item := func(words []string) candidate {
		return candidate{
			fields: []Field{{"vm.network[]", "{" + strings.Join(words, ", ") + "}", one.Line}},
			about:  card,
		}
	}
	model := compare.FullDriver(one.Value)
	if model == "virtio-net-pci" {
		return []candidate{item(words)}
	}
	return []candidate{item(append(slices.Clone(words), "device: "+quoteYAML(model))), item(words)}
}

// portOf converts the value of hostfwd, "tcp:ADDRESS:PORT-:PORT"; "" if it has another form.
func portOf(text string) string {
	outer, inner, found := strings.Cut(text, "-")
	list := strings.Split(outer, ":")
	_, guest, _ := strings.Cut(inner, ":")
	if !found || len(list) != 3 || guest == "" {
		return ""
	}
	words := []string{"host: " + list[2], "guest: " + guest}
	if list[0] == "udp" {
		words = append(words, "protocol: udp")
	}
	switch address := list[1]; address {
	case "127.0.0.1":
	case "":
		words = append(words, "address: 0.0.0.0")
	default:
		words = append(words, "address: "+quoteYAML(address))
	}
	for _, port := range []string{list[2], guest} {
		if _, err := strconv.Atoi(port); err != nil {
			return ""
		}
	}
	return "{" + strings.Join(words, ", ") + "}"
}
