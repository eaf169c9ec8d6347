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

// What compressed files begin with.
const (
	gzipMagic = "\x1f\x8b\x08"
	xzMagic   = "\xfd7zXZ\x00"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

// largestWindow is how much of what it has decompressed a decompressor may have to remember,
// in bytes: what xz -9 and zstd --ultra --long=26 need. It is the memory that an image can
// make an import use.
const largestWindow = 64 << 20

// compressionOf returns what a file is compressed with, "" if it isn't.
func compressionOf(head []byte) string {
	for magic, name := range map[string]string{gzipMagic: "gz", xzMagic: "xz", zstdMagic: "zst"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return name
		}
	}
	return ""
}

// Decompress returns the bytes of an image, and what they were compressed with: gz, xz, zst, or "" if
// they are as they were. The caller calls done when no more is read. Errors of r are returned as they are.
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
