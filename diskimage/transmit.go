package diskimage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A transmission of a disk is compressed with zstd, which also adds checksums. It begins with the size of the disk
// in 8 bytes. Pieces follow in ascending order: their offset in 8 bytes, their length in 4, and the bytes. The gaps
// between them are zero. The last piece is at the end of the disk and has no bytes: without it the transmission is
// incomplete.
//
// See docs/decisions/0142-exports-of-disks.md.

const pieceHeader = 12

// pieceOf writes the header of a piece into the beginning of buf and returns it.
func pieceOf(buf []byte, at int64, length int) []byte {
	binary.BigEndian.PutUint64(buf, uint64(at))
	binary.BigEndian.PutUint32(buf[8:], uint32(length))
	return buf[:pieceHeader]
}

// A Recipient receives a disk from its beginning to its end.
type Recipient interface {
	// Put writes data at an offset, which is a multiple of 4096 and not before the end of the earlier writes.
	Put(data []byte, at int64) error
	// End sets the size of the disk in bytes.
	End(size int64) error
}

// An Arrival receives a disk in one transmission, or in several if they break.
type Arrival struct {
	// To receives the disk.
	To Recipient
	// Begin, if not nil, is called before the first Put with the size of the disk in bytes.
	Begin func(size int64) error
	// Progress is called with the offset reached and the size of the disk, in bytes.
	Progress func(at, size int64)

	at, size int64
	buf      []byte
}

// Reached returns the offset for the next transmission.
func (a *Arrival) Reached() int64 { return a.at }

// Receive receives a transmission and returns nil if the disk is complete. An error that isn't an *Error means that
// the transmission broke: the next transmission can continue it.
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
		if done, err := a.readPiece(z); done || err != nil {
			return err
		}
	}
}

func (a *Arrival) readPiece(r io.Reader) (done bool, err error) {
	var header [pieceHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return false, fmt.Errorf("receive the disk after %d of %d bytes: %w", a.at, a.size, err)
	}
	at, n := int64(binary.BigEndian.Uint64(header[:])), int64(binary.BigEndian.Uint32(header[8:]))
	if at < a.at || at > a.size || n > min(chunkSize, a.size-at) || at != a.size && (n == 0 || at%block != 0) {
		return false, Refuse(ImageCorrupt, "what comes is not a disk: %d bytes at %d, after %d", n, at, a.at)
	}
	if n == 0 {
		// The checksum of the whole transmission follows.
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
