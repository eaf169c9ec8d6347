package control

import (
	"bufio"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
)

// maxPixels bounds the width and height of a screen.
const maxPixels = 16 << 10

// ppmImage is a binary PPM (netpbm's ppm(5)) that is read while it is encoded, because a 4K screen has 25 MB and
// the runner must stay small.
type ppmImage struct {
	in   *bufio.Reader
	size image.Rectangle
	row  []byte
	y    int // of row; -1 before the first row
	err  error
}

// ppmToPNG converts a screen that QEMU wrote.
func ppmToPNG(w io.Writer, r io.Reader) error {
	img := &ppmImage{in: bufio.NewReader(r), y: -1}
	var width, height, depth int
	if _, err := fmt.Fscanf(img.in, "P6\n%d %d\n%d\n", &width, &height, &depth); err != nil {
		return fmt.Errorf("read QEMU's screenshot: %w", err)
	}
	if width < 1 || height < 1 || width > maxPixels || height > maxPixels || depth != 255 {
		return fmt.Errorf("read QEMU's screenshot: %d x %d pixels of depth %d", width, height, depth)
	}
	img.size, img.row = image.Rect(0, 0, width, height), make([]byte, 3*width)
	if err := png.Encode(w, img); err != nil {
		return fmt.Errorf("encode a screenshot: %w", err)
	}
	return img.err
}

// ColorModel implements image.Image.
func (*ppmImage) ColorModel() color.Model { return color.RGBAModel }

// Bounds implements image.Image.
func (i *ppmImage) Bounds() image.Rectangle { return i.size }

// Opaque reports that there is no alpha channel, which saves the encoder a pass.
func (*ppmImage) Opaque() bool { return true }

// At implements image.Image for an encoder that reads row by row.
func (i *ppmImage) At(x, y int) color.Color {
	for i.y < y && i.err == nil {
		if _, err := io.ReadFull(i.in, i.row); err != nil {
			i.err = fmt.Errorf("read QEMU's screenshot: %w", err)
		}
		i.y++
	}
	p := i.row[3*x : 3*x+3]
	return color.RGBA{R: p[0], G: p[1], B: p[2], A: 255}
}
