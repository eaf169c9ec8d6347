package diskimage

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"vmop/internal/readfile"
)

// attempted is one attempt to import.
type attempted struct {
	Import
	out      *output
	report   *reporter
	transfer *transfer
	result   Result
}

func (a *attempted) runImport(ctx context.Context) error {
	if err := a.out.emptyTarget(); err != nil {
		return err
	}
	a.report.setPhase(Connecting)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := a.Source.Open(reading, a.networkOf())
	if err != nil {
		return err
	}
	defer stream.Close()
	var source io.Reader = stream
	if !stream.ahead {
		early := readAhead(reading, stream)
		defer early.waitUntilRead()
		defer stop()
		source = early
	}
	a.transfer = newTransfer(a.Checksum, stream, source, a.Limits.transferFor(a.out.most), a.report)
	a.report.beginPhase(Transferring, stream.Total)
	plain, compression, done, err := a.decompressed()
	if err != nil {
		return a.ofContent(compression, err)
	}
	defer done()
	a.result.Compression = compression
	size, err := a.importContent(ctx, bufio.NewReaderSize(plain, HeaderSize), stream)
	if err != nil {
		return a.ofContent(compression, err)
	}
	a.report.setPhase(Syncing)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := a.out.finishTarget(size); err != nil {
		return err
	}
	a.result.VirtualSize = size
	a.report.setPhase(Done)
	return nil
}

// decompressed returns the bytes of the image as Decompress does. Bytes in the format Raw may come from a guest, so
// they are never decompressed.
func (a *attempted) decompressed() (plain io.Reader, compression string, done func(), err error) {
	if a.Format == Raw {
		return a.transfer, "", func() {}, nil
	}
	return Decompress(a.transfer)
}

// ofContent returns the error of the transfer if the transfer failed. Readers above the transfer may have wrapped
// that error or taken it for an end.
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

// importContent imports the contents of the image and returns the size of its disk.
func (a *attempted) importContent(ctx context.Context, image *bufio.Reader, stream *Stream) (size int64, err error) {
	info, err := a.probeImage(image)
	if err != nil {
		return 0, err
	}
	a.result.Format = info.Format
	if info.Format.Plain() && a.result.Compression == "" {
		info.VirtualSize = max(stream.Total-vhdFooter, 0) // it may be a fixed VHD
	}
	if err := a.out.checkFits(info.VirtualSize); err != nil {
		return 0, err
	}
	a.report.setFormat(info)
	whole := a.result.Compression == "" && stream.Path != "" && a.Checksum == Checksum{}
	switch {
	case info.Format.Plain() && whole:
		return a.copyFile(ctx, stream.Path)
	case info.Format.Plain():
		size, err = a.streamRaw(image)
		if err != nil {
			return 0, err
		}
		return size, a.verifyChecksum(stream)
	case whole:
		return a.convertFile(ctx, stream.Path)
	}
	scratch, err := a.copyToScratch(image)
	if scratch != nil {
		defer func() { _ = errors.Join(os.Remove(scratch.Name()), scratch.Close()) }()
	}
	if err != nil {
		return 0, err
	}
	if err := a.verifyChecksum(stream); err != nil {
		return 0, err
	}
	return a.convertFile(ctx, scratch.Name())
}

// probeImage returns the format of the image.
func (a *attempted) probeImage(image *bufio.Reader) (Info, error) {
	header, err := image.Peek(HeaderSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return Info{}, err
	}
	if a.Format == Raw && len(header) > 0 {
		return Info{Format: Raw}, nil
	}
	return Probe(header)
}

// streamRaw writes a raw image and returns the size of its disk. It holds back the last bytes of the image, which may
// be a VHD's footer.
func (a *attempted) streamRaw(image io.Reader) (size int64, err error) {
	w := newWriter(a.out, vhdFooter)
	size, err = a.streamTo(w, image)
	return size, cmp.Or(w.finishWrites(), err)
}

func (a *attempted) streamTo(w *writer, image io.Reader) (at int64, err error) {
	buf, err := w.nextBuffer()
	for have := 0; err == nil; {
		n, err := fillBuffer(image, buf[have:])
		have += n
		if errors.Is(err, io.EOF) {
			rest := a.withoutFooter(buf[:have], at)
			w.queueWrite(buf, len(rest), at)
			return at + int64(len(rest)), nil
		} else if err != nil {
			return at, err
		}
		next, err := w.nextBuffer()
		if err != nil {
			return at, err
		}
		have = copy(next, buf[chunkSize:])
		w.queueWrite(buf, chunkSize, at)
		buf, at = next, at+chunkSize
	}
	return at, err
}

// withoutFooter returns the end of a raw image, which begins at an offset, without a VHD's footer.
func (a *attempted) withoutFooter(end []byte, at int64) []byte {
	disk := len(end) - vhdFooter
	if a.Format == Raw || disk < 0 || !isVHDFooter(end[disk:], at+int64(disk)) {
		return end
	}
	a.result.Format = VPC
	return end[:disk]
}

// fillBuffer reads until the buffer is full. It returns io.EOF at the end. Unlike io.ReadFull, it returns
// io.ErrUnexpectedEOF only if compressed bytes are cut off.
func fillBuffer(r io.Reader, buf []byte) (n int, err error) {
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

// copyFile copies a raw image from a file, except its holes.
func (a *attempted) copyFile(ctx context.Context, path string) (size int64, err error) {
	file, err := readfile.Open(path)
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
	if err := a.out.checkFits(size); err != nil {
		return 0, err
	}
	w := newWriter(a.out, 0)
	err = a.copyTo(ctx, w, file, size)
	if err = cmp.Or(w.finishWrites(), err); err != nil {
		return 0, err
	}
	a.transfer.noteOffset(a.transfer.total)
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
			if err := a.out.zeroRange(at, data-at); err != nil {
				return ofTarget("write", a.out.Path, err)
			}
		}
		if at = data; at == size {
			return nil
		}
		buf, err := w.nextBuffer()
		if err != nil {
			return err
		}
		n := int(min(chunkSize, size-at))
		if _, err := file.ReadAt(buf[:n], at); err != nil {
			return Refuse(SourceRefused, "%w", err)
		}
		w.queueWrite(buf, n, at)
		at += int64(n)
		a.transfer.noteOffset(at)
	}
}

// nextData returns the offset of the next chunk that contains data, or size if only holes follow.
func nextData(file *os.File, at, size int64) int64 {
	data, err := file.Seek(at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size
	case err != nil:
		return at // the file system doesn't support holes
	}
	return max(at, min(data/block*block, size))
}

// copyToScratch writes the image into a temporary file for qemu-img.
func (a *attempted) copyToScratch(image io.Reader) (*os.File, error) {
	file, err := a.makeScratch()
	if err != nil {
		return nil, ofTarget("make", "a copy of the image", err)
	}
	buf, most := make([]byte, chunkSize), a.Limits.transferFor(a.out.most)
	for at := int64(0); ; {
		n, err := fillBuffer(image, buf)
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

// verifyChecksum compares the checksum after the whole image has been read. It adds a warning for everything that it
// could not verify.
func (a *attempted) verifyChecksum(stream *Stream) error {
	if err := a.transfer.drainRest(); err != nil {
		return err
	}
	got := a.transfer.totalChecksum()
	if err := a.Checksum.compareWith(got); err != nil {
		return err
	}
	a.result.Transferred, a.result.Checksum = a.transfer.at, cmp.Or(stream.Digest, got.String())
	if (a.Checksum != Checksum{}) {
		return nil
	}
	if stream.Open {
		a.addWarning("the image came over http without a checksum: anyone on the way could have changed it")
	}
	if stream.EndUnknown {
		a.addWarning("there was neither a size nor a checksum: an image that was cut off would not have been noticed")
	}
	return nil
}

func (a *attempted) addWarning(text string) { a.result.Warnings = append(a.result.Warnings, text) }

// convertFile converts an image file with qemu-img.
func (a *attempted) convertFile(ctx context.Context, path string) (int64, error) {
	size, err := a.sizeOf(path)
	if err != nil {
		return 0, err
	}
	if err := a.out.reserveSize(size); err != nil {
		return 0, err
	}
	a.report.setFormat(Info{a.result.Format, size})
	a.report.setPhase(Converting)
	c := conversion{
		program: cmp.Or(a.QEMUImg, "qemu-img"), image: path, format: a.result.Format, out: a.out, size: size,
		cpu: a.Limits.CPU, percent: a.report.setConverted,
	}
	return size, c.runQEMUImg(ctx)
}

// sizeOf probes the whole image and returns the size of its disk.
func (a *attempted) sizeOf(path string) (int64, error) {
	file, err := readfile.Open(path)
	if err != nil {
		return 0, Refuse(SourceRefused, "%w", err)
	}
	defer file.Close()
	header := make([]byte, HeaderSize)
	n, err := fillBuffer(file, header)
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
