package diskimage

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// Transmit writes the nonzero data of a disk to w. It begins at the offset from, a multiple of block that an earlier
// Arrival has reached. size is the size of the disk in bytes. No other program may write to the disk at the same
// time.
func Transmit(ctx context.Context, w io.Writer, disk *os.File, from, size int64) error {
	if from < 0 || from > size {
		return Refuse(InvalidSource, "transmit a disk of %d bytes from byte %d: it has no such byte", size, from)
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	err = transmitDisk(ctx, z, disk, from, size)
	return errors.Join(err, z.Close())
}

func transmitDisk(ctx context.Context, w io.Writer, disk *os.File, from, size int64) error {
	if err := binary.Write(w, binary.BigEndian, size); err != nil {
		return err
	}
	buf := make([]byte, pieceHeader+chunkSize)
	for at := from; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if at = nextData(disk, at, size); at >= size {
			_, err := w.Write(pieceOf(buf, size, 0))
			return err
		}
		chunk := buf[pieceHeader : pieceHeader+min(chunkSize, size-at)]
		if _, err := disk.ReadAt(chunk, at); err != nil {
			return Refuse(SourceRefused, "%w", err)
		}
		for len(chunk) > 0 {
			n, hole := uniformRun(chunk)
			if !hole {
				if err := sendPiece(w, chunk[:n], at); err != nil {
					return err
				}
			}
			chunk, at = chunk[n:], at+int64(n)
		}
	}
}

func sendPiece(w io.Writer, data []byte, at int64) error {
	var header [pieceHeader]byte
	if _, err := w.Write(pieceOf(header[:], at, len(data))); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
