// Package disk creates disks with the configuration of guests: FAT images with a few files in the root directory.
// cloud-init finds its data on a disk with the label CIDATA ([Write]). Windows Setup finds its answer files on
// any disk ([WriteAnswers]).
//
// The package is separate from package cloudinit, so that programs that only process a configuration can omit the
// code of a file system. Equal files result in equal images, independent of the clock and the environment.
package disk

import (
	"fmt"
	"os"

	"vmop/cloudinit"
	"vmop/internal/atomicfile"
)

// Image returns the image of a seed. Its size is 1440 KiB. If the files need more, it is as large as necessary
// and at least 4 MiB. Image fails if the files are larger than [cloudinit.MaxData] together.
func Image(seed cloudinit.Seed) ([]byte, error) {
	image, err := buildDisk(cloudInitLabel, seed.Files())
	if err != nil {
		return nil, err
	}
	return append(image.data, make([]byte, image.size-len(image.data))...), nil
}

// Write writes the image of a seed to a file that only its owner can read. The file appears completely or not at all.
// The free space after the files is a hole. Write doesn't sync the file, because a VM gets a new image at each start.
func Write(path string, seed cloudinit.Seed) error {
	if err := writeDisk(path, cloudInitLabel, seed.Files()); err != nil {
		return fmt.Errorf("make cloud-init image: %w", err)
	}
	return nil
}

// WriteAnswers does the same with the answer files of Windows Setup. See docs/decisions/0095-answer-files.md.
func WriteAnswers(path string, files []cloudinit.File) error {
	if err := writeDisk(path, answersLabel, files); err != nil {
		return fmt.Errorf("create the image with the answer files: %w", err)
	}
	return nil
}

// Labels of the file systems. In FAT they are in upper case.
const (
	cloudInitLabel = "CIDATA"
	answersLabel   = "UNATTEND"
)

func writeDisk(path, label string, files []cloudinit.File) error {
	image, err := buildDisk(label, files)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.Fill(path, 0o600, atomicfile.Volatile, func(file *os.File) error {
		if _, err := file.Write(image.data); err != nil {
			return err
		}
		return file.Truncate(int64(image.size))
	})
}

func buildDisk(label string, files []cloudinit.File) (*memory, error) {
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
