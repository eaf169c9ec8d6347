package diskimage

import (
	"context"
	"os"
	"time"
)

// ConvertUnchecked converts an image without probing it.
func ConvertUnchecked(ctx context.Context, image string, format Format, to string, size int64) error {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	out := &output{Target: Target{Path: to}, part: to, file: file, most: size, zeroed: true}
	if err := out.reserveSize(size); err != nil {
		return err
	}
	c := conversion{
		program: "qemu-img", image: image, format: format, out: out, size: size, cpu: time.Minute,
		percent: func(float64) {},
	}
	return c.runQEMUImg(ctx)
}

// WriteChunk writes a chunk of a disk into a new file at a given offset.
func WriteChunk(path string, chunk []byte, at int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w := newWriter(&output{Target: Target{Path: path}, file: file, most: at + int64(len(chunk)), zeroed: true}, 0)
	buf, err := w.nextBuffer()
	if err != nil {
		return err
	}
	w.queueWrite(buf, copy(buf, chunk), at)
	return w.finishWrites()
}
