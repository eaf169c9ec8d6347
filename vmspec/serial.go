package vmspec

import (
	"cmp"
	"fmt"
	"path"
	"strings"
)

// LongestSerial is how long a drive's serial number may be, in bytes: VIRTIO_BLK_ID_BYTES of
// the virtio specification, and the field of ATA's IDENTIFY DEVICE.
const LongestSerial = 20

// inSerial reports whether a serial number may have a character: those that udev takes
// over into /dev/disk/by-id as they are.
func inSerial(r rune) bool {
	return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
}

// nameSerials gives the drives without a serial number their name: cd0, cd1 … for CD drives,
// whose media change, that of an export or else of its server, and else that of the image or device
// without its extension.
func nameSerials(s *Spec) {
	taken := map[string]bool{}
	for _, d := range s.Drives {
		taken[d.Serial] = true
	}
	cds := 0
	for i := range s.Drives {
		d := &s.Drives[i]
		name := serialOf(d.File + d.Device + d.Resource)
		if d.NBD != nil {
			name = serialOf(cmp.Or(d.NBD.Export, d.NBD.Host))
		}
		if d.Type == DriveIDECD {
			name = fmt.Sprintf("cd%d", cds)
			cds++
		}
		if d.Serial != "" {
			continue
		}
		if taken[name] {
			suffix := fmt.Sprintf("-%d", i)
			name = name[:min(len(name), LongestSerial-len(suffix))] + suffix
		}
		d.Serial, taken[name] = name, true
	}
}

// serialOf returns the serial number of a disk that is a file or device.
func serialOf(file string) string {
	name := path.Base(file)
	if base := strings.TrimSuffix(name, path.Ext(name)); base != "" {
		name = base
	}
	name = strings.Map(func(r rune) rune {
		if inSerial(r) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), LongestSerial)]
}

// serial judges a drive's serial number.
func (c *checker) serial(path, serial string, seen map[string]string) {
	switch first, taken := seen[serial]; {
	case serial == "": // as the default says
	case taken:
		c.add(path, "%q is taken", serial).hint("by %s", first).also(first)
	case len(serial) > LongestSerial:
		c.add(path, "has %d bytes", len(serial)).hint("at most %d", LongestSerial)
	case strings.ContainsFunc(serial, func(r rune) bool { return !inSerial(r) }):
		c.add(path, "can't be %q", serial).hint("letters, digits and ._-")
	default:
		seen[serial] = path
	}
}
