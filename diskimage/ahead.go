package diskimage

import (
	"context"
	"io"
)

// What is read before it is wanted: the number of buffers, and the bytes of one.
const (
	aheadBuffers = 4
	aheadSize    = 512 << 10
)

// ahead is a reader that is read before its bytes are wanted, in a goroutine of its own: a source is read
// while what it has sent is hashed and decompressed.
type ahead struct {
	ctx        context.Context
	from       io.Reader
	full, free chan []byte
	err        error  // why there is no more, once full is closed
	chunk      []byte // that is being taken
	rest       []byte // of chunk
}

// readAhead begins to read, until the reader or the context ends.
func readAhead(ctx context.Context, from io.Reader) *ahead {
	a := &ahead{ctx: ctx, from: from, full: make(chan []byte, aheadBuffers), free: make(chan []byte, aheadBuffers)}
	for range aheadBuffers {
		a.free <- make([]byte, aheadSize)
	}
	go a.run()
	return a
}

func (a *ahead) run() {
	defer close(a.full)
	for {
		var buf []byte
		select {
		case buf = <-a.free:
		case <-a.ctx.Done():
			a.err = context.Cause(a.ctx)
			return
		}
		// Whatever has come is passed on, be it little: it shows that the transfer gets on.
		n, err := a.from.Read(buf)
		if n > 0 {
			a.full <- buf[:n] // never waits: there are as many places as buffers
		} else {
			a.free <- buf
		}
		if err != nil {
			a.err = err
			return
		}
	}
}

// Read implements io.Reader. It ends with the context, even if the reader doesn't.
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

// wait returns when the reader is not read any more.
func (a *ahead) wait() {
	for range a.full {
	}
}
