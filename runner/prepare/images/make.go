package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vmop/diskimage"
	"vmop/vmspec"
)

// A Disk is a raw image to be created from another image.
type Disk struct {
	// File is the absolute path of the disk.
	File string
	// Source is the image that it is created from.
	Source
	// Size is the size in bytes; 0 means the size of the image. It must not be less than the size of the image.
	Size int64
	// Replace permits to replace an existing disk.
	Replace bool
}

// A Step is the current step.
type Step string

// The steps of creating a disk.
const (
	// Waiting: another process fetches or removes the image.
	Waiting Step = "waiting for"
	// Fetching: the image is fetched into the cache.
	Fetching Step = "fetching"
	// Copying: the disk is created from the image.
	Copying Step = "copying"
)

// A Progress is the progress of a step.
type Progress struct {
	Step Step `json:"step"`
	// Source is the source of the image, without a password.
	Source string `json:"source"`
	// Percent of the step, 0 to 100. Bytes is the number of transferred bytes of Total; 0 means not known.
	Percent float64 `json:"percent"`
	Bytes   int64   `json:"bytes"`
	Total   int64   `json:"total,omitempty"`
}

// String returns "fetching debian/12: 34 % of 330 MiB".
func (p Progress) String() string {
	text := string(p.Step) + " " + p.Source
	switch {
	case p.Step == Waiting:
		return text + ", which another process is fetching"
	case p.Bytes == 0:
		return text
	case p.Total == 0:
		return fmt.Sprintf("%s: %s", text, formatMiB(p.Bytes))
	}
	return fmt.Sprintf("%s: %.0f %% of %s", text, p.Percent, formatMiB(p.Total))
}

// formatMiB returns a number of bytes in whole MiB.
func formatMiB(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

func progressOf(step Step, s Source, p diskimage.Progress) Progress {
	return Progress{Step: step, Source: Shown(s.Text), Percent: p.Percent, Bytes: p.Bytes, Total: p.Total}
}

// Shown returns a source without credentials.
func Shown(source string) string {
	bare, _, _ := vmspec.Credentials(source)
	return bare
}

// Make creates a disk, and fetches its image if it isn't in the cache. It calls tell often, from one goroutine at
// a time. The disk is either complete or missing at the end, even after an interruption. Errors of images are of
// type *diskimage.Error: TargetExists if the disk exists.
func (c *Cache) Make(ctx context.Context, d Disk, tell func(Progress)) (err error) {
	work := diskimage.Import{
		Target:   diskimage.Target{Path: d.File, Size: d.Size, Replace: d.Replace},
		Progress: func(p diskimage.Progress) { tell(progressOf(Copying, d.Source, p)) },
	}
	if vmspec.SourceKindOf(d.Text) == vmspec.SourceFile {
		work.Source = diskimage.File{Path: d.Text}
		if d.Checksum != "" {
			if work.Checksum, err = diskimage.ParseChecksum(d.Checksum); err != nil {
				return err
			}
		}
	} else {
		image, err := c.holdImage(ctx, d.Source, tell)
		if err != nil {
			return err
		}
		defer image.releaseLock()
		// Its content belongs to a guest: it is not examined again.
		work.Source, work.Format = diskimage.File{Path: image.file}, diskimage.Raw
	}
	_, err = work.Run(ctx)
	return err
}

// Missing returns the places of the drives with missing disks that will be created from images. It omits drives
// in missing folders, which can't be created.
func Missing(drives []vmspec.Drive) (places []int) {
	for i, d := range drives {
		if d.Source == "" || d.File == "" {
			continue
		}
		_, err := os.Lstat(d.File)
		if _, missing := os.Stat(filepath.Dir(d.File)); errors.Is(err, fs.ErrNotExist) && missing == nil {
			places = append(places, i)
		}
	}
	return places
}

// DiskOf returns the disk for a drive with a source.
func DiskOf(d vmspec.Drive) Disk {
	return Disk{File: d.File, Source: Source{d.Source, d.SourceChecksum}, Size: int64(d.Size)}
}

// Fault returns an error of Make as an error of a drive in the configuration. ok is false if the configuration is
// not the cause, and another attempt may succeed.
func Fault(place int, d vmspec.Drive, err error) (f vmspec.Fault, ok bool) {
	f = vmspec.Fault{Path: fmt.Sprintf("vm.drives[%d].source", place), Message: err.Error()}
	switch reason := diskimage.ReasonOf(err); reason {
	case diskimage.ImageTooLarge:
		if d.Size != 0 {
			f.Path = fmt.Sprintf("vm.drives[%d].size", place)
		}
	case diskimage.ChecksumMismatch:
		if d.SourceChecksum != "" {
			f.Path += "Checksum"
		}
	case diskimage.SourceUnreachable, diskimage.SourceStalled, diskimage.TransferBroken, diskimage.TimedOut,
		diskimage.NoSpace, diskimage.TargetBusy, diskimage.TargetFailed, diskimage.Canceled:
		return f, false
	case diskimage.Internal:
		return f, errors.Is(err, ErrUnknown)
	}
	return f, true
}
