package diskimage

import (
	"bytes"
	"fmt"
)

const (
	// block is the size, in bytes, of what is a hole or not.
	block = 4096
	// chunkSize is how much is read and written at once, in bytes.
	chunkSize = 4 << 20
)

// zeros is a chunk of them; it is never written to.
var zeros [chunkSize]byte

// What a file is called until it is whole, and a copy that is to be converted.
const (
	partSuffix    = ".part"
	scratchSuffix = ".scratch"
)

// roundUp returns the size in whole sectors: QEMU's disks have no others.
func roundUp(size int64) int64 { return (size + sectorSize - 1) / sectorSize * sectorSize }

// run returns how many bytes at the beginning of a chunk are blocks of zeros, or blocks of
// something else.
func run(chunk []byte) (n int, hole bool) {
	for n < len(chunk) {
		b := chunk[n:min(n+block, len(chunk))]
		if zero := bytes.Equal(b, zeros[:len(b)]); n == 0 {
			hole = zero
		} else if zero != hole {
			break
		}
		n += len(b)
	}
	return n, hole
}

// Size is a number of bytes that is written for people.
type Size int64

// String returns "20 GiB", "1.5 MiB" or "100 bytes".
func (s Size) String() string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if int64(s) >= unit.bytes {
			if int64(s)%unit.bytes == 0 {
				return fmt.Sprintf("%d %s", int64(s)/unit.bytes, unit.name)
			}
			return fmt.Sprintf("%.2f %s", float64(s)/float64(unit.bytes), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", int64(s))
}
