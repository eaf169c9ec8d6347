package vmspec

import (
	"fmt"
	"strings"
)

// rotationRateSSD is the rotation rate of a disk that doesn't rotate; see the ATA and SCSI standards.
const rotationRateSSD = 1

// DiskLimits are limits of a disk's speed, per second. 0 means no limit. The limit of all requests can't be combined
// with the limits of reads and writes.
type DiskLimits struct {
	// IOPS, IOPSRead and IOPSWrite limit the number of requests.
	IOPS      int `yaml:"iops" min:"1"`
	IOPSRead  int `yaml:"iopsRead" min:"1"`
	IOPSWrite int `yaml:"iopsWrite" min:"1"`
	// Bytes, BytesRead and BytesWrite limit the amount of data.
	Bytes      Bytes `yaml:"bytes" min:"1"`
	BytesRead  Bytes `yaml:"bytesRead" min:"1"`
	BytesWrite Bytes `yaml:"bytesWrite" min:"1"`
}

// WantedLimits returns the limits of a disk, which are zero without limits.
func (d Drive) WantedLimits() DiskLimits {
	if d.Limits == nil {
		return DiskLimits{}
	}
	return *d.Limits
}

// IsDirect reports whether the cache of the disk bypasses the host's page cache. It is false if the VM type decides.
func (d Drive) IsDirect() bool { return d.Cache == "none" || d.Cache == "directsync" }

// IOThread is the thread of QEMU that processes a disk's requests: IOThreadOwn, IOThreadNone, or the name of a thread
// that disks share. If it is empty, the VM type decides.
type IOThread string

// The special threads. In a file, true and false stand for them.
const (
	IOThreadOwn  IOThread = "own"
	IOThreadNone IOThread = "none"
)

// String returns the thread as text.
func (t IOThread) String() string { return string(t) }

// ParseScalar sets the thread from a text in a file.
func (t *IOThread) ParseScalar(text string) (message, hint string) {
	*t = IOThread(text)
	return "", ""
}

// SetSwitch sets the thread from true or false in a file.
func (t *IOThread) SetSwitch(on bool) {
	*t = IOThreadNone
	if on {
		*t = IOThreadOwn
	}
}

// Wanted returns a description of the expected value for a reader of a file, and a hint.
func (IOThread) Wanted() (what, hint string) {
	return "true, false or the name of a thread", "disks with the same name share a thread"
}

// Limits of sensible values.
const (
	longestThread   = 64      // bytes
	smallestSector  = 512     // bytes
	largestSector   = 2 * MiB // MAX_BLOCK_SIZE of QEMU
	slowestRotation = 1025    // per minute; the ATA and SCSI standards reserve smaller numbers
	fastestRotation = 65534
	mostPerSecond   = 1_000_000_000_000_000 // THROTTLE_VALUE_MAX of QEMU
)

// checkTuning checks how a drive is tuned.
func (c *checker) checkTuning(path string, d Drive) {
	if d.Type == DriveIDECD {
		for _, key := range d.tuningKeys() {
			c.addFault(path+"."+key, "is not for a CD drive").withHint("it is for disks").withPaths(path + ".type")
		}
		return
	}
	for _, word := range []struct{ key, value string }{
		{"cache", d.Cache}, {"aio", d.AIO}, {"discard", d.Discard}, {"detectZeroes", d.DetectZeroes},
	} {
		if word.value != "" {
			c.oneOf(path+"."+word.key, word.value)
		}
	}
	c.checkThread(path+".iothread", string(d.IOThread))
	if d.AIO == "native" && d.Cache != "" && !d.IsDirect() {
		c.addFault(path+".aio", "native needs direct I/O, and cache: %s uses the host's page cache", d.Cache).withHint(
			"cache: none, or aio: threads").withPaths(path + ".cache")
	}
	if d.DetectZeroes == "unmap" && d.Discard == "ignore" {
		c.addFault(path+".detectZeroes", "unmap frees space, and discard: ignore keeps it").withHint(
			"detectZeroes: on, or discard: unmap").withPaths(path + ".discard")
	}
	if d.NBD != nil {
		for _, key := range d.tuningKeys() {
			if key == "cache" || key == "aio" || key == "iothread" {
				c.addFault(path+"."+key, "is not for a disk of an NBD server").withHint(
					"leave it out").withPaths(path + ".nbd")
			}
		}
	}
	c.checkSectors(path, d)
	rate := d.RotationRate
	if rate != 0 && rate != rotationRateSSD && (rate < slowestRotation || rate > fastestRotation) {
		c.addFault(path+".rotationRate", "can't be %d", rate).withHint("1 for a disk without rotation, or %d to %d",
			slowestRotation, fastestRotation)
	}
	c.checkLimits(path+".limits", d.WantedLimits())
}

// tuningKeys returns the keys of a disk's tuning that are set.
func (d Drive) tuningKeys() (keys []string) {
	for _, k := range []struct {
		key   string
		given bool
	}{
		{"cache", d.Cache != ""},
		{"aio", d.AIO != ""},
		{"iothread", d.IOThread != ""},
		{"discard", d.Discard != ""},
		{"detectZeroes", d.DetectZeroes != ""},
		{"logicalBlockSize", d.LogicalBlockSize != 0},
		{"physicalBlockSize", d.PhysicalBlockSize != 0},
		{"rotationRate", d.RotationRate != 0},
		{"limits", d.Limits != nil},
	} {
		if k.given {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// checkThread checks the name of a thread, which becomes a part of an id in QEMU.
func (c *checker) checkThread(path, name string) {
	isAllowed := func(r rune) bool { return inSerial(r) && r != '.' }
	switch {
	case name == "":
	case len(name) > longestThread:
		c.addFault(path, "has %d bytes", len(name)).withHint("the maximum is %d", longestThread)
	case strings.ContainsFunc(name, func(r rune) bool { return !isAllowed(r) }):
		c.addFault(path, "%s is not the name of a thread", quoteClipped(name)).withHint(
			"letters, digits, - and _, such as fast")
	}
}

// checkSectors checks the sizes of sectors.
func (c *checker) checkSectors(path string, d Drive) {
	for _, s := range []struct {
		key  string
		size Bytes
	}{{"logicalBlockSize", d.LogicalBlockSize}, {"physicalBlockSize", d.PhysicalBlockSize}} {
		if s.size != 0 && (s.size < smallestSector || s.size > largestSector || s.size&(s.size-1) != 0) {
			c.addFault(path+"."+s.key, "can't be %s", s.size).withHint(
				"a power of 2 from %d bytes to %s, such as 4 KiB", int64(smallestSector), largestSector)
			return
		}
	}
	if d.PhysicalBlockSize != 0 && d.PhysicalBlockSize < max(d.LogicalBlockSize, smallestSector) {
		c.addFault(path+".physicalBlockSize", "is %s, less than logicalBlockSize, which is %s", d.PhysicalBlockSize,
			d.LogicalBlockSize).withHint("the same size or more").withPaths(path + ".logicalBlockSize")
	}
}

// checkLimits checks the limits of a disk's speed.
func (c *checker) checkLimits(path string, l DiskLimits) {
	for _, group := range [][3]struct {
		key   string
		value int64
	}{
		{{"iops", int64(l.IOPS)}, {"iopsRead", int64(l.IOPSRead)}, {"iopsWrite", int64(l.IOPSWrite)}},
		{{"bytes", int64(l.Bytes)}, {"bytesRead", int64(l.BytesRead)}, {"bytesWrite", int64(l.BytesWrite)}},
	} {
		for i, limit := range group {
			if limit.value < 0 || limit.value > mostPerSecond {
				c.addFault(path+"."+limit.key, "can't be %d", limit.value).withHint("1 to %d per second",
					int64(mostPerSecond))
			}
			if total := group[0]; i > 0 && limit.value != 0 && total.value != 0 {
				c.addFault(path+"."+limit.key, "%s is given as well, which limits reads and writes together", total.key).
					withHint("give %s, or %s and %s", total.key, group[1].key, group[2].key).
					withPaths(fmt.Sprintf("%s.%s", path, total.key))
			}
		}
	}
}
