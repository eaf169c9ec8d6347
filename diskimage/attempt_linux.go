package diskimage

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"vmop/regular"
)

// attempted is an attempt to import.
type attempted struct {
	Import
	out      *output
	report   *reporter
	transfer *transfer
	result   Result
}

func (a *attempted) run(ctx context.Context) error {
	if err := a.out.begin(); err != nil {
		return err
	}
	a.report.phase(Connecting)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := a.Source.Open(reading, a.network())
	if err != nil {
		return err
	}
	defer stream.Close()
	var source io.Reader = stream
	if !stream.ahead {
		early := readAhead(reading, stream)
		defer early.wait()
		defer stop()
		source = early
	}
	a.transfer = newTransfer(a.Checksum, stream, source, a.Limits.transferFor(a.out.most), a.report)
	a.report.begin(Transferring, stream.Total)
	plain, compression, done, err := a.plain()
	if err != nil {
		return a.ofContent(compression, err)
	}
	defer done()
	a.result.Compression = compression
	size, err := a.content(ctx, bufio.NewReaderSize(plain, HeaderSize), stream)
	if err != nil {
		return a.ofContent(compression, err)
	}
	a.report.phase(Syncing)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := a.out.finish(size); err != nil {
		return err
	}
	a.result.VirtualSize = size
	a.report.phase(Done)
	return nil
}

// plain returns the bytes of the image as Decompress does. What is said to be raw may be a guest's, and
// is never decompressed, whatever it begins with.
func (a *attempted) plain() (plain io.Reader, compression string, done func(), err error) {
	if a.Format == Raw {
		return a.transfer, "", func() {}, nil
	}
	return Decompress(a.transfer)
}

// ofContent returns the error of the transfer, if it is one: what is read from it wraps it, or
// takes it for an end.
func (a *attempted) ofContent(compression string, err error) error {
	switch {
	case a.transfer.err != nil && !errors.Is(a.transfer.err, io.EOF):
		return a.transfer.err
	case errors.As(err, new(*Error)), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case compression == "":
		return Refuse(Internal, "%w", err)
	}
	return Refuse(ImageCorrupt, "decompress the image (%s): %w", compression, err)
}

// content imports what the image has, and returns the size of its disk.
func (a *attempted) content(ctx context.Context, image *bufio.Reader, stream *Stream) (size int64, err error) {
	info, err := a.probe(image)
	if err != nil {
		return 0, err
	}
	a.result.Format = info.Format
	if info.Format.Plain() && a.result.Compression == "" {
		info.VirtualSize = max(stream.Total-vhdFooter, 0) // it may be a fixed VHD
	}
	if err := a.out.fits(info.VirtualSize); err != nil {
		return 0, err
	}
	a.report.format(info)
	whole := a.result.Compression == "" && stream.Path != "" && a.Checksum == Checksum{}
	switch {
	case info.Format.Plain() && whole:
		return a.copyFile(ctx, stream.Path)
	case info.Format.Plain():
		size, err = a.stream(image)
		if err != nil {
			return 0, err
		}
		return size, a.verify(stream)
	case whole:
		return a.convert(ctx, stream.Path)
	}
	scratch, err := a.scratch(image)
	if scratch != nil {
		defer func() { _ = errors.Join(os.Remove(scratch.Name()), scratch.Close()) }()
	}
	if err != nil {
		return 0, err
	}
	if err := a.verify(stream); err != nil {
		return 0, err
	}
	return a.convert(ctx, scratch.Name())
}

// probe says what the image is.
func (a *attempted) probe(image *bufio.Reader) (Info, error) {
	header, err := image.Peek(HeaderSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return Info{}, err
	}
	if a.Format == Raw && len(header) > 0 {
		return Info{Format: Raw}, nil
	}
	return Probe(header)
}

// stream writes a raw image, and returns the size of its disk. The last bytes of the image are
// held back: they may be a VHD's.
func (a *attempted) stream(image io.Reader) (size int64, err error) {
	w := newWriter(a.out, vhdFooter)
	size, err = a.streamTo(w, image)
	return size, cmp.Or(w.end(), err)
}

func (a *attempted) streamTo(w *writer, image io.Reader) (at int64, err error) {
	buf, err := w.buffer()
	for have := 0; err == nil; {
		n, err := fill(image, buf[have:])
		have += n
		if errors.Is(err, io.EOF) {
			rest := a.withoutFooter(buf[:have], at)
			w.write(buf, len(rest), at)
			return at + int64(len(rest)), nil
		} else if err != nil {
			return at, err
		}
		next, err := w.buffer()
		if err != nil {
			return at, err
		}
		have = copy(next, buf[chunkSize:])
		w.write(buf, chunkSize, at)
		buf, at = next, at+chunkSize
	}
	return at, err
}

// withoutFooter returns the end of a raw image that begins at a place, without a VHD's footer.
func (a *attempted) withoutFooter(end []byte, at int64) []byte {
	disk := len(end) - vhdFooter
	if a.Format == Raw || disk < 0 || !isVHDFooter(end[disk:], at+int64(disk)) {
		return end
	}
	a.result.Format = VPC
	return end[:disk]
}

// fill reads until the buffer is full. io.EOF is the end, and io.ErrUnexpectedEOF that of
// compressed bytes which are cut off, unlike for io.ReadFull.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var read int
		read, err = r.Read(buf[n:])
		n += read
	}
	if n == len(buf) {
		err = nil
	}
	return n, err
}

// copyFile copies a raw image in a file, but for its holes.
func (a *attempted) copyFile(ctx context.Context, path string) (size int64, err error) {
	file, err := regular.Open(path)
	if err != nil {
		return 0, Refuse(SourceRefused, "%w", err)
	}
	defer file.Close()
	size = a.transfer.total
	end := make([]byte, min(size, vhdFooter))
	if _, err := file.ReadAt(end, size-int64(len(end))); err != nil {
		return 0, Refuse(SourceRefused, "%w", err)
	}
	if len(a.withoutFooter(end, size-int64(len(end)))) < len(end) {
		size -= vhdFooter
	}
	if err := a.out.fits(size); err != nil {
		return 0, err
	}
	w := newWriter(a.out, 0)
	err = a.copyTo(ctx, w, file, size)
	if err = cmp.Or(w.end(), err); err != nil {
		return 0, err
	}
	a.transfer.moved(a.transfer.total)
	a.result.Transferred = a.transfer.total
	return size, nil
}

func (a *attempted) copyTo(ctx context.Context, w *writer, file *os.File, size int64) error {
	for at := int64(0); ; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		data := nextData(file, at, size)
		if at < data && !a.out.zeroed {
			if err := a.out.zero(at, data-at); err != nil {
				return ofTarget("write", a.out.Path, err)
			}
		}
		if at = data; at == size {
			return nil
		}
		buf, err := w.buffer()
		if err != nil {
			return err
		}
		n := int(min(chunkSize, size-at))
		if _, err := file.ReadAt(buf[:n], at); err != nil {
			return Refuse(SourceRefused, "%w", err)
		}
		w.write(buf, n, at)
		at += int64(n)
		a.transfer.moved(at)
	}
}

// nextData returns where the next chunk with data begins, size if there is none.
func nextData(file *os.File, at, size int64) int64 {
	data, err := file.Seek(at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size
	case err != nil:
		return at // the file system doesn't know holes
	}
	return max(at, min(data/block*block, size))
}

// scratch writes the image into a file of its own, for qemu-img.
func (a *attempted) scratch(image io.Reader) (*os.File, error) {
	file, err := a.makeScratch()
	if err != nil {
		return nil, ofTarget("make", "a copy of the image", err)
	}
	buf, most := make([]byte, chunkSize), a.Limits.transferFor(a.out.most)
	for at := int64(0); ; {
		n, err := fill(image, buf)
		if at+int64(n) > most {
			return file, Refuse(TransferTooLarge, "the image has more than %s, the most for a disk of %s", Size(most),
				Size(a.out.most))
		}
		if _, err := file.WriteAt(buf[:n], at); err != nil {
			return file, ofTarget("write", "a copy of the image", err)
		}
		at += int64(n)
		if errors.Is(err, io.EOF) {
			return file, nil
		} else if err != nil {
			return file, err
		}
	}
}

func (a *attempted) makeScratch() (*os.File, error) {
	if a.Scratch == "" && !a.out.device {
		return os.OpenFile(a.out.Path+scratchSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	}
	return os.CreateTemp(a.Scratch, "image-*"+scratchSuffix)
}

// verify compares the checksum, when all has been read, and notes what could not be made sure.
func (a *attempted) verify(stream *Stream) error {
	if err := a.transfer.drain(); err != nil {
		return err
	}
	got := a.transfer.checksum()
	if err := a.Checksum.check(got); err != nil {
		return err
	}
	a.result.Transferred, a.result.Checksum = a.transfer.at, cmp.Or(stream.Digest, got.String())
	if (a.Checksum != Checksum{}) {
		return nil
	}
	if stream.Open {
		a.warn("the image came by http without a checksum: anyone between could have changed it")
	}
	if stream.EndUnknown {
		a.warn("there was neither a size nor a checksum: an image that was cut off would not have been noticed")
	}
	return nil
}

func (a *attempted) warn(text string) { a.result.Warnings = append(a.result.Warnings, text) }

// convert has an image in a file converted.
func (a *attempted) convert(ctx context.Context, path string) (int64, error) {
	size, err := a.sizeOf(path)
	if err != nil {
		return 0, err
	}
	if err := a.out.reserve(size); err != nil {
		return 0, err
	}
	a.report.format(Info{a.result.Format, size})
	a.report.phase(Converting)
	c := conversion{
		program: cmp.Or(a.QEMUImg, "qemu-img"), image: path, format: a.result.Format, out: a.out, size: size,
		cpu: a.Limits.CPU, percent: a.report.converted,
	}
	return size, c.run(ctx)
}

// sizeOf probes the whole image, and returns the size of its disk.
func (a *attempted) sizeOf(path string) (int64, error) {
	file, err := regular.Open(path)
	if err != nil {
		return 0, Refuse(SourceRefused, "%w", err)
	}
	defer file.Close()
	header := make([]byte, HeaderSize)
	n, err := fill(file, header)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, Refuse(SourceRefused, "%w", err)
	}
	info, err := Probe(header[:n])
	if err == nil && info.Format != a.result.Format {
		err = Refuse(ImageCorrupt, "the image has changed while it was imported")
	}
	switch {
	case err != nil:
	case info.Format == VHDX:
		info.VirtualSize, err = vhdxSize(file)
	case info.Format == VDI:
		err = vdiIsWhole(header[:n], file)
	}
	return info.VirtualSize, err
}
