package diskimage

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// First bytes of compressed files.
const (
	gzipMagic = "\x1f\x8b\x08"
	xzMagic   = "\xfd7zXZ\x00"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// largestWindow is the largest window of a decompressor, in bytes: what xz -9 and zstd --ultra --long=26 need. It is
// the memory that an image can make an import use.
const largestWindow = 64 << 20

// compressionOf returns the compression of a file, or "" if the file isn't compressed.
func compressionOf(head []byte) string {
	for magic, name := range map[string]string{gzipMagic: "gz", xzMagic: "xz", zstdMagic: "zst"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return name
		}
	}
	return ""
}

// Decompress returns the decompressed bytes of an image and the compression: gz, xz, zst, or "" if the image isn't
// compressed. The caller calls done after the last read. Decompress returns errors of r unchanged.
func Decompress(r io.Reader) (plain io.Reader, compression string, done func(), err error) {
	buffered := bufio.NewReaderSize(r, HeaderSize)
	head, err := buffered.Peek(len(xzMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", nil, err
	}
	done = func() {}
	switch compression = compressionOf(head); compression {
	case "gz":
		plain, err = gzip.NewReader(buffered)
	case "xz":
		plain, err = xz.NewReader(buffered)
	case "zst":
		var d *zstd.Decoder
		d, err = zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(largestWindow))
		if err == nil {
			plain, done = d, d.Close
		}
	default:
		return buffered, "", done, nil
	}
	return plain, compression, done, err
}
