package diskimage

import (
	"bytes"
	"fmt"
)

const (
	// block is the granularity of holes in bytes.
	block = 4096
	// chunkSize is the number of bytes per read or write.
	chunkSize = 4 << 20
)

// zeros is a chunk of zeros; it must not be written to.
var zeros [chunkSize]byte

// Suffixes of an incomplete file, and of a copy for conversion.
const (
	partSuffix    = ".part"
	scratchSuffix = ".scratch"
)

// roundUp rounds a size up to whole sectors, as QEMU's disks require.
func roundUp(size int64) int64 { return (size + sectorSize - 1) / sectorSize * sectorSize }

// uniformRun returns the number of bytes at the beginning of a chunk that are all zero blocks (hole) or all other
// blocks.
func uniformRun(chunk []byte) (n int, hole bool) {
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

// Size is a number of bytes with a human-readable text.
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
