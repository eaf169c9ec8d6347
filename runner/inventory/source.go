package inventory

import (
	"errors"
	"fmt"
	"io"
	"os"

	"vmop/diskimage"
	"vmop/internal/readfile"
	"vmop/vmspec"
)

// sourceFaults returns errors about the image files of disks that will be created: the file doesn't exist, or the
// disk is smaller than its image. Existing disks aren't created. The size of a compressed image isn't known.
func sourceFaults(drives []vmspec.Drive) (faults []vmspec.Fault) {
	for i, d := range drives {
		if vmspec.SourceKindOf(d.Source) != vmspec.SourceFile {
			continue
		}
		if _, err := os.Lstat(d.File); err == nil {
			continue
		}
		size, err := imageSize(d.Source)
		at := fmt.Sprintf("vm.drives[%d]", i)
		switch {
		case err != nil:
			faults = append(faults, vmspec.Fault{Path: at + ".source", Message: err.Error()})
		case d.Size > 0 && int64(d.Size) < size:
			faults = append(faults, vmspec.Fault{
				Path: at + ".size", Message: fmt.Sprintf("%s is less than the image %s has", d.Size, d.Source),
				Hint: "set at least " + vmspec.Bytes(size).String(),
			})
		}
	}
	return faults
}

// imageSize returns the size in bytes of the disk in an image, 0 if the header doesn't show it.
func imageSize(path string) (int64, error) {
	f, err := readfile.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	header := make([]byte, diskimage.HeaderSize)
	n, err := io.ReadFull(f, header)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	info, err := diskimage.Probe(header[:n])
	switch {
	case err != nil:
		return 0, nil // the start reports the error
	case !info.Format.Plain():
		return info.VirtualSize, nil
	}
	stat, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return stat.Size(), nil
}
