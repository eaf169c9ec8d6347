package diskimage

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// writerBuffers is the number of chunks that are filled or written at the same time.
	writerBuffers = 3
	// leastDirect is the minimum size of a write that bypasses the page cache, in bytes. Smaller writes are
	// collected there.
	leastDirect = 64 << 10
)

// writer writes chunks of a disk in a separate goroutine while the next chunks are read. An image is written only
// once, so writer bypasses the page cache where possible: the cache would cost time and memory, and would leave most
// of the writing to the final sync.
//
// See docs/decisions/0105-whole-imports.md.
type writer struct {
	out    *output
	direct *os.File // nil if the file system requires the page cache
	full   chan placed
	free   chan []byte
	failed chan struct{}
	ended  chan struct{}
	err    error // set before failed or ended is closed
}

// placed is a chunk at the beginning of a buffer, and its offset on the disk.
type placed struct {
	buf  []byte
	size int
	at   int64
}

// newWriter starts to write to the output. Buffers have more bytes than a chunk: more. The caller must call end.
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
	go w.writeBlocks()
	return w
}

func (w *writer) writeBlocks() {
	defer close(w.ended)
	for c := range w.full {
		if w.err = w.writeAt(c.buf[:c.size], c.at); w.err != nil {
			close(w.failed)
			return
		}
		w.free <- c.buf
	}
}

// nextBuffer returns a free buffer, which the caller fills and passes to write. It returns the error of an earlier
// write.
func (w *writer) nextBuffer() ([]byte, error) {
	select {
	case <-w.failed:
		return nil, w.err
	case buf := <-w.free:
		return buf, nil
	}
}

// queueWrite queues size bytes of a buffer for writing, at a multiple of block. It never blocks: there are as many
// places as buffers.
func (w *writer) queueWrite(buf []byte, size int, at int64) { w.full <- placed{buf, size, at} }

// finishWrites waits until everything is written, but not synced, and returns the first error.
func (w *writer) finishWrites() error {
	close(w.full)
	<-w.ended
	if w.direct != nil {
		w.err = errors.Join(w.err, ofTarget("write", w.out.Path, w.direct.Close()))
	}
	return w.err
}

// writeAt writes a chunk; blocks of zeros remain holes.
func (w *writer) writeAt(chunk []byte, at int64) error {
	if err := w.out.checkFits(at + int64(len(chunk))); err != nil {
		return err
	}
	for len(chunk) > 0 {
		n, hole := uniformRun(chunk)
		var err error
		switch {
		case !hole:
			err = w.writeData(chunk[:n], at)
		case !w.out.zeroed:
			err = w.out.zeroRange(at, int64(n))
		}
		if err != nil {
			return ofTarget("write", w.out.Path, err)
		}
		chunk, at = chunk[n:], at+int64(n)
	}
	return nil
}

func (w *writer) writeData(data []byte, at int64) error {
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
