package diskimage

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// writerBuffers is how many chunks are filled or written at the same time.
	writerBuffers = 3
	// leastDirect is the least, in bytes, that is written past the page cache. What is smaller is collected there.
	leastDirect = 64 << 10
)

// writer writes chunks of a disk in a goroutine of its own, while the next ones are read. An image
// passes once, so it is written past the page cache where that is possible: the cache would take
// time and memory, and leave most of the writing to the sync in the end.
//
// See docs/decisions/0105-whole-imports.md.
type writer struct {
	out    *output
	direct *os.File // nil: its file system wants all to pass the page cache
	full   chan placed
	free   chan []byte
	failed chan struct{}
	ended  chan struct{}
	err    error // once failed or ended is closed
}

// placed is the beginning of a buffer that is a chunk, and its place on the disk.
type placed struct {
	buf  []byte
	size int
	at   int64
}

// newWriter begins to write to the output. Buffers have some bytes more than a chunk. The caller calls end.
func newWriter(o *output, more int) *writer {
	w := &writer{
		out: o, full: make(chan placed, writerBuffers), free: make(chan []byte, writerBuffers),
		failed: make(chan struct{}), ended: make(chan struct{}),
	}
	for range writerBuffers {
		w.free <- make([]byte, chunkSize+more)
	}
	direct, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(o.file.Fd())), os.O_WRONLY|unix.O_DIRECT, 0)
	if err == nil {
		w.direct = direct
	}
	go w.run()
	return w
}

func (w *writer) run() {
	defer close(w.ended)
	for c := range w.full {
		if w.err = w.writeAt(c.buf[:c.size], c.at); w.err != nil {
			close(w.failed)
			return
		}
		w.free <- c.buf
	}
}

// buffer waits for one to fill, which then is passed to write. Its error is that of an earlier write.
func (w *writer) buffer() ([]byte, error) {
	select {
	case <-w.failed:
		return nil, w.err
	case buf := <-w.free:
		return buf, nil
	}
}

// write has so many bytes of a buffer written, at a multiple of block. It never waits: there are as
// many places as buffers.
func (w *writer) write(buf []byte, size int, at int64) { w.full <- placed{buf, size, at} }

// end waits until all is written, but not synced, and returns the first error.
func (w *writer) end() error {
	close(w.full)
	<-w.ended
	if w.direct != nil {
		w.err = errors.Join(w.err, ofTarget("write", w.out.Path, w.direct.Close()))
	}
	return w.err
}

// writeAt writes a chunk; blocks of zeros remain holes.
func (w *writer) writeAt(chunk []byte, at int64) error {
	if err := w.out.fits(at + int64(len(chunk))); err != nil {
		return err
	}
	for len(chunk) > 0 {
		n, hole := run(chunk)
		var err error
		switch {
		case !hole:
			err = w.data(chunk[:n], at)
		case !w.out.zeroed:
			err = w.out.zero(at, int64(n))
		}
		if err != nil {
			return ofTarget("write", w.out.Path, err)
		}
		chunk, at = chunk[n:], at+int64(n)
	}
	return nil
}

func (w *writer) data(data []byte, at int64) error {
	if w.direct != nil && len(data) >= leastDirect && len(data)%block == 0 {
		n, err := w.direct.WriteAt(data, at)
		if !errors.Is(err, unix.EINVAL) {
			return err
		}
		data, at = data[n:], at+int64(n) // the device may have larger blocks
	}
	_, err := w.out.file.WriteAt(data, at)
	return err
}
