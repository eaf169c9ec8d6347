package images

import (
	"io"

	"vmop/diskimage"
	"vmop/internal/readfile"
	"vmop/vmspec"
)

// SizeOf returns the size of the disk in a source's image, in bytes. It is 0 if the size is unknown: before the
// image is fetched, or if it is compressed as a whole. SizeOf never fetches an image.
func (c *Cache) SizeOf(s Source) int64 {
	if vmspec.SourceKindOf(s.Text) != vmspec.SourceFile {
		about, err := c.cachedImage(idOf(s))
		if err != nil {
			return 0
		}
		return about.Size
	}
	file, err := readfile.Open(s.Text)
	if err != nil {
		return 0
	}
	defer file.Close()
	header, err := io.ReadAll(io.LimitReader(file, diskimage.HeaderSize))
	if err != nil {
		return 0
	}
	image, err := diskimage.Probe(header)
	if err != nil || !image.Format.Plain() {
		return image.VirtualSize
	}
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}
