package diskimage_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
)

// The limits of a qcow2 header are enforced. The test writes headers itself because qemu-img creates no image beyond
// the limits.
func TestHeadersOfQCOW2(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at     int // of the changed number; its last byte receives the value
		value  byte
		reason diskimage.Reason
	}{
		"as it should be":          {23, 16, ""},
		"the smallest clusters":    {23, 9, ""},
		"smaller clusters":         {23, 8, diskimage.ImageCorrupt},
		"the largest clusters":     {23, 21, ""},
		"larger clusters":          {23, 22, diskimage.ImageCorrupt},
		"version 1":                {7, 1, diskimage.UnsupportedFormat},
		"version 4":                {7, 4, diskimage.UnsupportedFormat},
		"a backing file":           {15, 1, diskimage.ImageHasBackingFile},
		"encryption":               {35, 1, diskimage.ImageEncrypted},
		"not closed":               {79, 1, ""},
		"marked as corrupt":        {79, 2, diskimage.ImageCorrupt},
		"data in another file":     {79, 4, diskimage.ImageHasExternalData},
		"its own compression":      {79, 8, ""},
		"subclusters":              {79, 16, ""},
		"an unknown feature":       {79, 32, diskimage.UnsupportedFormat},
		"a disk of nothing":        {31, 0, diskimage.ImageCorrupt},
		"a disk of less than that": {24, 0xff, diskimage.ImageCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := make([]byte, diskimage.HeaderSize)
			copy(header, "QFI\xfb")
			for at, n := range map[int]uint32{4: 3, 20: 16, 28: 128, 100: 104} {
				binary.BigEndian.PutUint32(header[at:], n)
			}
			header[c.at] = c.value
			info, err := diskimage.Probe(header)
			if c.reason == "" {
				require.NoError(t, err)
				require.Equal(t, diskimage.Info{Format: diskimage.QCOW2, VirtualSize: 128}, info)
				return
			}
			var refused *diskimage.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.reason, refused.Reason)
		})
	}
}
