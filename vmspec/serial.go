package vmspec

import (
	"cmp"
	"fmt"
	"path"
	"strings"
)

// LongestSerial is the maximum length of a drive's serial number, in bytes: VIRTIO_BLK_ID_BYTES of the virtio
// specification, and the field of ATA's IDENTIFY DEVICE.
const LongestSerial = 20

// inSerial reports whether a character is allowed in a serial number. The allowed characters are those that udev
// copies unchanged into /dev/disk/by-id.
func inSerial(r rune) bool {
	return 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r)
}

// nameSerials sets the missing serial numbers of drives:
//
//   - For a CD drive it is cd0, cd1 and so on, because its medium can change.
//   - For an NBD drive it is the name of the export, otherwise of the server.
//   - For other drives it is the name of the image or device without its extension.
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

// serialOf returns the serial number for a disk with a file or device.
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

// checkSerial checks a drive's serial number.
func (c *checker) checkSerial(path, serial string, seen map[string]string) {
	switch first, taken := seen[serial]; {
	case serial == "": // the default
	case taken:
		c.addFault(path, "%q is taken", serial).withHint("by %s", first).withPaths(first)
	case len(serial) > LongestSerial:
		c.addFault(path, "has %d bytes", len(serial)).withHint("at most %d", LongestSerial)
	case strings.ContainsFunc(serial, func(r rune) bool { return !inSerial(r) }):
		c.addFault(path, "can't be %q", serial).withHint("letters, digits and ._-")
	default:
		seen[serial] = path
	}
}
