package control

import (
	"bytes"
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
