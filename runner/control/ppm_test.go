package control

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPPMToPNG(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, ppmToPNG(&out, strings.NewReader("P6\n2 1\n255\n\x01\x02\x03\xff\xfe\xfd")))
	img, err := png.Decode(&out)
	require.NoError(t, err)
	r, g, b, a := img.At(1, 0).RGBA()
	require.Equal(t, []uint32{0xffff, 0xfefe, 0xfdfd, 0xffff}, []uint32{r, g, b, a})
}

func TestPPMThatIsNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "read QEMU's screenshot",
		"P5\n2 1\n255\n":         "read QEMU's screenshot",
		"P6\n2 1\n65535\n":       "depth 65535",
		"P6\n0 1\n255\n":         "0 x 1 pixels",
		"P6\n99999 1\n255\n":     "99999 x 1 pixels",
		"P6\n2 2\n255\n\x01\x02": "unexpected EOF",
	} {
		require.ErrorContains(t, ppmToPNG(io.Discard, strings.NewReader(text)), want)
	}
}

// FuzzPPM lets QEMU write anything as a screenshot. It becomes an image of the stated size or is refused.
func FuzzPPM(f *testing.F) {
	for _, text := range []string{
		"P6\n2 1\n255\n\x01\x02\x03\xff\xfe\xfd", "P6\n1 1\n255\n", "P6\n-1 16384\n255\n",
		"P6\n999999999999999999999 1\n255\n",
		"P6\n# a comment\n2 2\n255\n", "P6\r\n2 1\r\n255\r\n123456",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var width, height, depth int
		_, err := fmt.Sscanf(string(text), "P6\n%d %d\n%d\n", &width, &height, &depth)
		if err == nil && width*height > 1<<16 {
			return // too slow to decode
		}
		var out bytes.Buffer
		if ppmToPNG(&out, bytes.NewReader(text)) != nil {
			return
		}
		img, err := png.Decode(&out)
		require.NoError(t, err)
		require.Equal(t, image.Rect(0, 0, width, height), img.Bounds())
	})
}
