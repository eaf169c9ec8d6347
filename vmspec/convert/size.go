package convert

import (
	"strconv"
	"strings"

	"vmop/vmspec"
)

// mebi is a MiB. RAM sizes are multiples of it.
const mebi = 1 << 20

// binarySize reads a size with units based on 1024, such as 4G, 4GiB and 4gb. A number without a unit is shifted by
// plain bits.
func (c *conversion) binarySize(n *node, plain uint, to string) vmspec.Bytes {
	text := strings.ToUpper(strings.ReplaceAll(n.textValue(), " ", ""))
	unit := strings.TrimLeft(text, "0123456789.")
	shift := map[string]uint{"": plain, "K": 10, "M": 20, "G": 30, "T": 40}
	bits, isKnown := shift[strings.TrimSuffix(strings.TrimSuffix(unit, "B"), "I")]
	value, err := strconv.ParseFloat(strings.TrimSuffix(text, unit), 64)
	const most = 1 << 50
	if size := value * float64(uint64(1)<<bits); isKnown && err == nil && size >= 1 && size <= most {
		whole := (uint64(size) + mebi - 1) / mebi * mebi
		if whole != uint64(size) {
			c.changePart(n, to+", rounded up to whole MiB", "")
		} else {
			c.keepPart(n, to)
		}
		return vmspec.Bytes(whole)
	}
	c.blockPart(n, "must be a size such as 4G", "")
	return 0
}
