package diskimage

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"vmop/regular"
)

// A Source is where an image comes from: HTTP, File, Reader, or a container image of package
// registry.
type Source interface {
	// Open begins to transfer the image. It is called again for another attempt, after an
	// error that says so (Error.Again).
	Open(ctx context.Context, n Network) (*Stream, error)
}

// Stream is an image that is being transferred. Reads and their errors end with the context
// of Open. An error of a read is an *Error unless the context has ended.
type Stream struct {
	io.ReadCloser
	// Total is how many bytes there will be; 0 if it is not known.
	Total int64
	// Open says that others could change the bytes on their way; EndUnknown that the end
	// of the bytes may be where a connection broke. A checksum helps against both.
	Open, EndUnknown bool
	// Digest identifies what is transferred, where the source has checked it itself.
	Digest string
	// Path is the file that is read, if it is one.
	Path string

	ahead bool // it is read ahead already
}

// File is a source that is a file of the host, or a block device. A raw image in a file keeps
// its holes, unless only a part is read.
type File struct {
	Path string
	// Length is how many bytes are read, from the beginning; 0 is all.
	Length int64
}

// Open implements Source.
func (f File) Open(ctx context.Context, _ Network) (*Stream, error) {
	info, err := regular.Stat(f.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, Refuse(SourceNotFound, "%w", err)
	} else if err != nil {
		return nil, Refuse(SourceRefused, "%w", err)
	}
	if !info.Mode().IsRegular() && !isBlockDevice(info) {
		return nil, Refuse(InvalidSource, "%s is neither a file nor a block device", f.Path)
	}
	file, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, Refuse(SourceRefused, "%w", err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(Refuse(SourceRefused, "%w", err), file.Close())
	}
	s := &Stream{ReadCloser: &fileReader{ctx, file, size}, Total: size}
	if f.Length > 0 && f.Length < size {
		s.ReadCloser, s.Total = &fileReader{ctx, file, f.Length}, f.Length
		return s, nil
	}
	if info.Mode().IsRegular() {
		s.Path = f.Path
	}
	return s, nil
}

func isBlockDevice(info os.FileInfo) bool {
	return info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0
}

// fileReader ends with a context.
type fileReader struct {
	ctx  context.Context
	file *os.File
	left int64 // bytes that are still to be read
}

func (r *fileReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left <= 0 {
		return 0, io.EOF
	}
	n, err := r.file.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = Refuse(SourceRefused, "%w", err)
	}
	return n, err
}

func (r *fileReader) Close() error { return r.file.Close() }

// Reader is a source that is there once: an upload. It is read to its end, and closed if it is
// an io.Closer, also when the context ends or nothing comes for Limits.Stall: a read that
// doesn't end then is left behind.
type Reader struct {
	R io.Reader
	// Size is how many bytes there must be; 0 if it is not known, and what is cut off is
	// taken for whole unless there is a checksum.
	Size int64
}

// Open implements Source.
func (r Reader) Open(ctx context.Context, n Network) (*Stream, error) {
	ctx, end := context.WithCancelCause(ctx)
	u := &upload{ahead: readAhead(ctx, r.R), source: r, stall: n.Stall, cancel: end}
	return &Stream{ReadCloser: u, Total: r.Size, EndUnknown: r.Size == 0, ahead: true}, nil
}

// upload is a Reader that is being read. Its goroutine is left behind if the reader hangs.
type upload struct {
	*ahead
	source Reader
	stall  time.Duration
	cancel context.CancelCauseFunc
	at     int64
}

func (u *upload) Read(p []byte) (int, error) {
	at := u.at
	late := time.AfterFunc(u.stall, func() {
		u.cancel(Refuse(SourceStalled, "nothing came for %s, after %d bytes", u.stall, at))
	})
	n, err := u.ahead.Read(p)
	late.Stop()
	u.at += int64(n)
	switch {
	case u.source.Size > 0 && u.at > u.source.Size:
		return 0, Refuse(TransferBroken, "more bytes came than the %d that were announced", u.source.Size)
	case err == nil || u.ctx.Err() != nil:
		return n, err
	case !errors.Is(err, io.EOF):
		return n, Refuse(TransferBroken, "the upload broke after %d bytes: %w", u.at, err)
	case u.at < u.source.Size:
		return n, Refuse(TransferBroken, "the upload ended after %d of %d bytes", u.at, u.source.Size)
	}
	return n, io.EOF
}

func (u *upload) Close() error {
	u.cancel(nil)
	if c, ok := u.source.R.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
