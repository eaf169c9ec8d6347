package diskimage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// What is transmitted of a disk is compressed by zstd, and has checksums so. It begins with the size of the
// disk, in 8 bytes. Pieces follow, in ascending order: where they belong, in 8 bytes, how many bytes they
// have, in 4, and the bytes. What lies between them is zero. The last piece is at the end of the disk, and
// has no bytes: without it something is missing.
//
// See docs/decisions/0142-exports-of-disks.md.

const pieceHeader = 12

// pieceOf writes the header of a piece into the beginning of buf, and returns it.
func pieceOf(buf []byte, at int64, length int) []byte {
	binary.BigEndian.PutUint64(buf, uint64(at))
	binary.BigEndian.PutUint32(buf[8:], uint32(length))
	return buf[:pieceHeader]
}

// A Recipient is a disk that is written from its beginning to its end.
type Recipient interface {
	// Put writes data at an offset, a multiple of 4096 that is behind all that was written before.
	Put(data []byte, at int64) error
	// End makes the disk have so many bytes.
	End(size int64) error
}

// An Arrival is a disk that comes by one transmission, or by several if they break.
type Arrival struct {
	// To gets the disk.
	To Recipient
	// Begin, if not nil, is called before anything is put, with the size of the disk in bytes.
	Begin func(size int64) error
	// Progress is called with the place on the disk that has been reached, and its size, in bytes.
	Progress func(at, size int64)

	at, size int64
	buf      []byte
}

// Reached returns from where the next transmission has to begin.
func (a *Arrival) Reached() int64 { return a.at }

// Receive takes a transmission, and returns an error unless the disk is whole then. One that isn't an *Error
// is of a transmission that broke: the next one can continue.
func (a *Arrival) Receive(r io.Reader) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(largestWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	var size int64
	if err := binary.Read(z, binary.BigEndian, &size); err != nil {
		return fmt.Errorf("receive the size of the disk: %w", err)
	}
	if size <= 0 || a.size != 0 && a.size != size {
		return Refuse(ImageCorrupt, "what comes is not the disk that was asked for: it has %d bytes", size)
	}
	if a.size == 0 && a.Begin != nil {
		if err := a.Begin(size); err != nil {
			return ofTarget("begin", "the disk", err)
		}
	}
	a.size = size
	if a.buf == nil {
		a.buf = make([]byte, chunkSize)
	}
	for {
		if done, err := a.piece(z); done || err != nil {
			return err
		}
	}
}

func (a *Arrival) piece(r io.Reader) (done bool, err error) {
	var header [pieceHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return false, fmt.Errorf("receive the disk after %d of %d bytes: %w", a.at, a.size, err)
	}
	at, n := int64(binary.BigEndian.Uint64(header[:])), int64(binary.BigEndian.Uint32(header[8:]))
	if at < a.at || at > a.size || n > min(chunkSize, a.size-at) || at != a.size && (n == 0 || at%block != 0) {
		return false, Refuse(ImageCorrupt, "what comes is not a disk: %d bytes at %d, after %d", n, at, a.at)
	}
	if n == 0 {
		// What follows is the checksum of all that came.
		if _, err := io.ReadFull(r, header[:1]); !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("receive the end of the disk: %w", err)
		}
		a.Progress(a.size, a.size)
		return true, a.To.End(a.size)
	}
	if _, err := io.ReadFull(r, a.buf[:n]); err != nil {
		return false, fmt.Errorf("receive the disk after %d of %d bytes: %w", a.at, a.size, err)
	}
	if err := a.To.Put(a.buf[:n], at); err != nil {
		return false, err
	}
	a.at = at + n
	a.Progress(a.at, a.size)
	return false, nil
}
