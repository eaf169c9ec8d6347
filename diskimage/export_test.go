package diskimage

import (
	"context"
	"os"
	"time"
)

// ConvertUnchecked converts an image that was not probed.
func ConvertUnchecked(ctx context.Context, image string, format Format, to string, size int64) error {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	out := &output{Target: Target{Path: to}, part: to, file: file, most: size, zeroed: true}
	if err := out.reserve(size); err != nil {
		return err
	}
	c := conversion{
		program: "qemu-img", image: image, format: format, out: out, size: size, cpu: time.Minute,
		percent: func(float64) {},
	}
	return c.run(ctx)
}
