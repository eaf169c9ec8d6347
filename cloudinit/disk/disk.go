// Package disk makes the disks from which guests configure themselves: FAT images with a
// few files in their root directory. cloud-init finds its data on one labelled CIDATA
// ([Write]), Windows Setup its answer files on any ([WriteAnswers]).
//
// It stands apart from package cloudinit so that what only looks at a configuration
// doesn't link the code of a file system. Equal files make equal images, whatever the
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
	image, err := build(cloudInitLabel, seed.Files())
	if err != nil {
		return nil, err
	}
	return append(image.data, make([]byte, image.size-len(image.data))...), nil
}

// Write puts the image of a seed into a file that only its owner can read. The file
// appears complete or not at all. The free space after the files is left as a hole.
// Nothing is synced, as a VM gets a new image at each start.
func Write(path string, seed cloudinit.Seed) error {
	if err := write(path, cloudInitLabel, seed.Files()); err != nil {
		return fmt.Errorf("make cloud-init image: %w", err)
	}
	return nil
}

// WriteAnswers does the same with the answer files of Windows Setup. See
// docs/decisions/0095-answer-files.md.
func WriteAnswers(path string, files []cloudinit.File) error {
	if err := write(path, answersLabel, files); err != nil {
		return fmt.Errorf("make the image with the answer files: %w", err)
	}
	return nil
}

// Labels of the file systems, which in FAT are upper case.
const (
	cloudInitLabel = "CIDATA"
	answersLabel   = "UNATTEND"
)

func write(path, label string, files []cloudinit.File) error {
	image, err := build(label, files)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return durable.Fill(path, 0o600, durable.Volatile, func(file *os.File) error {
		if _, err := file.Write(image.data); err != nil {
			return err
		}
		return file.Truncate(int64(image.size))
	})
}

func build(label string, files []cloudinit.File) (*memory, error) {
	total := 0
	for _, f := range files {
		total += len(f.Content)
	}
	if total > cloudinit.MaxData {
		const tooMuch = "the data are %d bytes long, at most %d (%d MiB) fit"
		return nil, fmt.Errorf(tooMuch, total, cloudinit.MaxData, cloudinit.MaxData>>20)
	}
	return buildFAT(label, files)
}
