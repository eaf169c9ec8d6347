package diskimage

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"vmop/internal/readfile"
)

// A Source provides an image: HTTP, File, Reader, or a container image of package registry.
type Source interface {
	// Open starts to transfer the image. Import calls it again for another attempt after a temporary error
	// (Error.Again).
	Open(ctx context.Context, n Network) (*Stream, error)
}

// Stream is an image during its transfer. Reads end with the context of Open. The error of a read is an *Error
// unless the context has ended.
type Stream struct {
	io.ReadCloser
	// Total is the number of bytes to expect; 0 if unknown.
	Total int64
	// Open means that others could change the bytes in transit. EndUnknown means that a broken connection can look
	// like the end of the bytes. A checksum protects against both.
	Open, EndUnknown bool
	// Digest identifies the transferred bytes if the source has verified them itself.
	Digest string
	// Path is the source file, if the source is a file.
	Path string

	ahead bool // the source already reads ahead
}

// File is a source: a file or block device of the host. A raw image in a file keeps its holes, unless Length selects
// only a part.
type File struct {
	Path string
	// Length is the number of bytes to read, from the beginning; 0 means all.
	Length int64
}

// Open implements Source.
func (f File) Open(ctx context.Context, _ Network) (*Stream, error) {
	info, err := readfile.Stat(f.Path)
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

// fileReader reads a file until a context ends.
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

// Reader is a source that can be read only once, such as an upload. It is read to its end. If R is an io.Closer, it
// is closed even if the context ends or the reader stalls for Limits.Stall. A read that still blocks is then
// abandoned.
type Reader struct {
	R io.Reader
	// Size is the exact number of bytes to expect. If it is 0, the size is unknown, and a truncated image counts as
	// complete unless there is a checksum.
	Size int64
}

// Open implements Source.
func (r Reader) Open(ctx context.Context, n Network) (*Stream, error) {
	ctx, end := context.WithCancelCause(ctx)
	u := &upload{ahead: readAhead(ctx, r.R), source: r, stall: n.Stall, cancel: end}
	return &Stream{ReadCloser: u, Total: r.Size, EndUnknown: r.Size == 0, ahead: true}, nil
}

// upload is a Reader during its transfer. If the reader hangs, its goroutine is abandoned.
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
		u.cancel(Refuse(SourceStalled, "no data came for %s, after %d bytes", u.stall, at))
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
