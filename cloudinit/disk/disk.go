// Package disk makes the disk on which cloud-init finds its data: a FAT image labelled
// CIDATA with the files of a [cloudinit.Seed] in its root directory.
//
// It stands apart from package cloudinit so that what only looks at a configuration
// doesn't link the code of a file system. Equal seeds make equal images, whatever the
// clock and the environment say.
package disk

import (
	"fmt"
	"os"

	"vmop/cloudinit"
	"vmop/durable"
)

// Image returns the image of a seed. It is 1440 KiB long, or, if the files need more,
// as long as they need and at least 4 MiB. It is an error if the files are larger than
// [cloudinit.MaxData] together.
func Image(seed cloudinit.Seed) ([]byte, error) {
	image, err := build(seed)
	if err != nil {
		return nil, err
	}
	return append(image.data, make([]byte, image.size-len(image.data))...), nil
}

// Write puts the image of a seed into a file that only its owner can read. The file
// appears complete or not at all. The free space after the files is left as a hole.
// Nothing is synced, as a VM gets a new image at each start.
func Write(path string, seed cloudinit.Seed) error {
	image, err := build(seed)
	if err != nil {
		return fmt.Errorf("make cloud-init image %s: %w", path, err)
	}
	err = durable.Fill(path, 0o600, durable.Volatile, func(file *os.File) error {
		if _, err := file.Write(image.data); err != nil {
			return err
		}
		return file.Truncate(int64(image.size))
	})
	if err != nil {
		return fmt.Errorf("make cloud-init image: %w", err)
	}
	return nil
}

func build(seed cloudinit.Seed) (*memory, error) {
	files := seed.Files()
	total := 0
	for _, f := range files {
		total += len(f.Content)
	}
	if total > cloudinit.MaxData {
		const tooMuch = "the cloud-init data are %d bytes long, at most %d (%d MiB) fit"
		return nil, fmt.Errorf(tooMuch, total, cloudinit.MaxData, cloudinit.MaxData>>20)
	}
	return buildFAT(files)
}
