package diskimage

import (
	"context"
	"io"
)

// Number of the read-ahead buffers, and the size of each in bytes.
const (
	aheadBuffers = 4
	aheadSize    = 512 << 10
)

// ahead reads a reader ahead in a separate goroutine, so a source is read while its earlier bytes are hashed and
// decompressed.
type ahead struct {
	ctx        context.Context
	from       io.Reader
	full, free chan []byte
	err        error  // set before full is closed: why there are no more bytes
	chunk      []byte // the chunk that Read is returning
	rest       []byte // the unread part of chunk
}

// readAhead starts to read, until the reader or the context ends.
func readAhead(ctx context.Context, from io.Reader) *ahead {
	a := &ahead{ctx: ctx, from: from, full: make(chan []byte, aheadBuffers), free: make(chan []byte, aheadBuffers)}
	for range aheadBuffers {
		a.free <- make([]byte, aheadSize)
	}
	go a.readAhead()
	return a
}

func (a *ahead) readAhead() {
	defer close(a.full)
	for {
		var buf []byte
		select {
		case buf = <-a.free:
		case <-a.ctx.Done():
			a.err = context.Cause(a.ctx)
			return
		}
		// Pass on even a small chunk: it shows that the transfer makes progress.
		n, err := a.from.Read(buf)
		if n > 0 {
			a.full <- buf[:n] // never blocks: full has as many places as there are buffers
		} else {
			a.free <- buf
		}
		if err != nil {
			a.err = err
			return
		}
	}
}

// Read implements io.Reader. It returns when the context ends, even if the reader still blocks.
func (a *ahead) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		select {
		case chunk, ok := <-a.full:
			if !ok {
				return 0, a.err
			}
			a.chunk, a.rest = chunk, chunk
		case <-a.ctx.Done():
			return 0, context.Cause(a.ctx)
		}
	}
	n := copy(p, a.rest)
	if a.rest = a.rest[n:]; len(a.rest) == 0 {
		a.free <- a.chunk[:cap(a.chunk)]
	}
	return n, nil
}

// waitUntilRead returns when the goroutine has stopped reading.
func (a *ahead) waitUntilRead() {
	for range a.full {
	}
}
