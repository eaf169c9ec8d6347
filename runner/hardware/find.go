package hardware

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vmop/internal/spelling"
)

// Find returns the devices with a name that a guest uses: /dev/vdb or vdb, a partition of it, eth1, enp1s0, a MAC
// address, a PCI address as lspci shows it, a serial number, a mount point, or the id in QEMU. The error contains a
// suggestion.
func (r Report) Find(word string) ([]Device, error) {
	for _, is := range []func(Device) bool{
		func(d Device) bool { return d.ID == word || d.hasName(word) },
		func(d Device) bool { return slices.Contains(d.Mounts, word) || d.Serial == word },
		func(d Device) bool { return d.MAC != "" && d.MAC == canonicalMAC(word) },
		func(d Device) bool { return d.PCI != "" && d.PCI == canonicalPCI(word) },
		func(d Device) bool { return d.hasName(wholeDisk(word)) },
	} {
		found := slices.DeleteFunc(slices.Clone(r.Devices), func(d Device) bool { return word == "" || !is(d) })
		if len(found) > 0 {
			return found, nil
		}
	}
	var known []string
	for _, d := range r.Devices {
		known = append(append(append(known, d.Names...), d.Mounts...), d.ID, d.Serial, d.MAC, d.PCI)
	}
	hint := "list the devices to see their names"
	if near := spelling.Nearest(word, slices.DeleteFunc(known, func(s string) bool { return s == "" })); near != "" {
		hint = "did you mean " + near + "?"
	}
	return nil, fmt.Errorf("the machine has no device %q; %s", word, hint)
}

// hasName reports whether a word is a name of the guest, with or without /dev/.
func (d Device) hasName(word string) bool {
	return slices.ContainsFunc(d.Names, func(name string) bool {
		return word != "" && (name == word || strings.TrimPrefix(name, "/dev/") == word)
	})
}

func canonicalMAC(word string) string {
	mac, err := net.ParseMAC(word)
	if err != nil {
		return ""
	}
	return mac.String()
}

// canonicalPCI returns the address 0000:00:0f.0 of 00:0f.0, of 0000:00:0f.0, and of enp0s15.
func canonicalPCI(word string) string {
	number := func(text string, base int) uint64 {
		n, _ := strconv.ParseUint(text, base, 8)
		return n
	}
	lspci := regexp.MustCompile(`^(?:0000:)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])$`)
	if m := lspci.FindStringSubmatch(word); m != nil {
		return fmt.Sprintf("0000:%02x:%02x.%s", number(m[1], 16), number(m[2], 16), m[3])
	}
	udev := regexp.MustCompile(`^enp([0-9]{1,3})s([0-9]{1,2})(?:f([0-7]))?$`)
	if m := udev.FindStringSubmatch(word); m != nil {
		return fmt.Sprintf("0000:%02x:%02x.%d", number(m[1], 10), number(m[2], 10), number(m[3], 10))
	}
	return ""
}
