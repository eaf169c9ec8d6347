package cloudinit

import (
	"fmt"
	"os"

	"vmop/durable"
)

// MaxData is the upper limit for the four files together, in bytes (64 MiB). An image is built in memory, so the limit is
// also what a configuration can make a runner allocate.
const MaxData = 64 << 20

// Seed is the content of the disk, file by file. A nil or empty network-config or vendor-data is a file that isn't there.
// meta-data and user-data must exist for cloud-init to accept the disk: where they are empty, the image gets the smallest
// content that means nothing.
type Seed struct {
	MetaData, UserData, NetworkConfig, VendorData []byte
}

// Image returns a FAT image labelled CIDATA that holds the seed's files in its root directory. It is 1440 KiB long, or, if
// the files need more, as long as they need and at least 4 MiB. Equal seeds make equal images. It is an error if the
// files are larger than [MaxData] together.
func (s Seed) Image() ([]byte, error) {
	image, err := s.image()
	if err != nil {
		return nil, err
	}
	return image.data, nil
}

// WriteImage puts the image into a file that only its owner can read. The file appears complete or not at all: it is
// written beside its place and renamed. The free space after the files is left as a hole. Nothing is synced to the disk,
// for a VM gets a new image at each start.
func (s Seed) WriteImage(path string) error {
	image, err := s.image()
	if err != nil {
		return fmt.Errorf("make cloud-init image %s: %w", path, err)
	}
	err = durable.Fill(path, 0o600, durable.Volatile, func(file *os.File) error {
		if _, err := file.Write(image.data[:image.used]); err != nil {
			return err
		}
		return file.Truncate(int64(len(image.data)))
	})
	if err != nil {
		return fmt.Errorf("make cloud-init image: %w", err)
	}
	return nil
}

func (s Seed) image() (*memory, error) {
	files := s.files()
	total := 0
	for _, f := range files {
		total += len(f.content)
	}
	if total > MaxData {
		return nil, fmt.Errorf("the cloud-init data are %d bytes long, at most %d (%d MiB) fit", total, MaxData, MaxData>>20)
	}
	return buildFAT(files)
}

// files lists what the image holds, in this order. None is empty.
func (s Seed) files() []file {
	files := []file{
		{"meta-data", orElse(s.MetaData, "{}\n")},
		{"user-data", orElse(s.UserData, emptyUserData)},
	}
	if len(s.NetworkConfig) > 0 {
		files = append(files, file{"network-config", s.NetworkConfig})
	}
	if len(s.VendorData) > 0 {
		files = append(files, file{"vendor-data", s.VendorData})
	}
	return files
}

func orElse(content []byte, otherwise string) []byte {
	if len(content) > 0 {
		return content
	}
	return []byte(otherwise)
}
