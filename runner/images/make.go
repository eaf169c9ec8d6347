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

// A Disk is a raw image that is made of another image.
type Disk struct {
	// File is the path of the disk, absolute.
	File string
	// Source is what it is made of.
	Source
	// Size in bytes; 0: that of the image. A disk smaller than its image can't be made.
	Size int64
	// Replace says that a disk that is there is replaced.
	Replace bool
}

// A Step says what is being done.
type Step string

// The steps of making a disk.
const (
	// Waiting: another process fetches the image, or removes it.
	Waiting Step = "waiting for"
	// Fetching: the image is brought into the cache.
	Fetching Step = "fetching"
	// Copying: the disk is made of it.
	Copying Step = "copying"
)

// A Progress says how far a step has come.
type Progress struct {
	Step Step `json:"step"`
	// Source is that of the image, without a password.
	Source string `json:"source"`
	// Percent of the step, 0 to 100. Bytes are those that were transferred, of Total; 0: not known.
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
		return fmt.Sprintf("%s: %s", text, megabytes(p.Bytes))
	}
	return fmt.Sprintf("%s: %.0f %% of %s", text, p.Percent, megabytes(p.Total))
}

// megabytes returns a number of bytes in whole MiB.
func megabytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

func progressOf(step Step, s Source, p diskimage.Progress) Progress {
	return Progress{Step: step, Source: Shown(s.Text), Percent: p.Percent, Bytes: p.Bytes, Total: p.Total}
}

// Shown is a source without credentials.
func Shown(source string) string {
	bare, _, _ := vmspec.Credentials(source)
	return bare
}

// Make makes a disk, and fetches its image if it isn't in the cache. tell is called often, from one
// goroutine at a time. Whenever it ends, and however, there is the whole disk or none. Errors of
// images are of type *diskimage.Error: TargetExists if the disk is there.
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
		image, err := c.hold(ctx, d.Source, tell)
		if err != nil {
			return err
		}
		defer image.release()
		// What it holds is a guest's matter: it is not looked at again.
		work.Source, work.Format = diskimage.File{Path: image.file}, diskimage.Raw
	}
	_, err = work.Run(ctx)
	return err
}

// Missing returns the drives that are to be made of images and aren't there, by their places. One
// whose folder isn't there can't be made, and is left out.
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

// DiskOf returns what a drive with a source is to be.
func DiskOf(d vmspec.Drive) Disk {
	return Disk{File: d.File, Source: Source{d.Source, d.SourceChecksum}, Size: int64(d.Size)}
}

// Fault returns an error of Make as a fault of a drive of the configuration; ok is false if it isn't one: if
// another attempt may succeed.
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
