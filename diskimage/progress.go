package diskimage

import (
	"context"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"sync"
	"time"
)

// Phase is what an import is doing.
type Phase string

// The phases, in their order.
const (
	Connecting   Phase = "Connecting"
	Transferring Phase = "Transferring"
	Converting   Phase = "Converting"
	Syncing      Phase = "Syncing" // to the disk
	Done         Phase = "Done"
)

// Progress is how far an import has come.
type Progress struct {
	Phase       Phase   `json:"phase"`
	Bytes       int64   `json:"bytes"`           // transferred
	Total       int64   `json:"total,omitempty"` // to be transferred; 0 if it is not known
	Percent     float64 `json:"percent"`         // of all, from 0 to 100; it goes back with another attempt
	Format      Format  `json:"format,omitempty"`
	VirtualSize int64   `json:"virtualSize,omitempty"` // bytes
}

// Parts of all that are done after the transfer, and after the conversion, in per cent.
const (
	afterTransfer   = 75
	afterConversion = 98
)

// often is how long it takes at least from one report to the next, within a phase.
const often = 250 * time.Millisecond

// reporter calls the caller of an import.
type reporter struct {
	mu   sync.Mutex
	to   func(Progress)
	now  Progress
	last time.Time
	late *time.Timer // that reports what was not reported yet; nil if all was
}

func newReporter(to func(Progress)) *reporter { return &reporter{to: to} }

// update changes the progress and reports it, a little later if the last time is too short ago.
func (r *reporter) update(always bool, change func(*Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.now)
	switch since := time.Since(r.last); {
	case r.to == nil:
	case always || since >= often:
		r.report()
	case r.late == nil:
		r.late = time.AfterFunc(often-since, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.late != nil {
				r.report()
			}
		})
	}
}

// report calls the caller. The mutex is held.
func (r *reporter) report() {
	if r.late != nil {
		r.late.Stop()
	}
	r.late, r.last = nil, time.Now()
	r.to(r.now)
}

// stop says that no more is reported.
func (r *reporter) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late != nil {
		r.late.Stop()
	}
	r.late, r.to = nil, nil
}

func (r *reporter) phase(p Phase) {
	r.update(true, func(now *Progress) {
		now.Phase = p
		switch p {
		case Converting:
			now.Percent = afterTransfer
		case Syncing:
			now.Percent = afterConversion
		case Done:
			now.Percent = 100
		}
	})
}

func (r *reporter) begin(p Phase, total int64) {
	r.update(true, func(now *Progress) { now.Phase, now.Total = p, total })
}

func (r *reporter) format(info Info) {
	r.update(true, func(now *Progress) { now.Format, now.VirtualSize = info.Format, info.VirtualSize })
}

func (r *reporter) transferred(bytes int64) {
	r.update(false, func(now *Progress) {
		now.Bytes = bytes
		if now.Total > 0 {
			share := float64(afterTransfer)
			if now.Format.Plain() {
				share = afterConversion
			}
			now.Percent = share * float64(bytes) / float64(now.Total)
		}
	})
}

func (r *reporter) converted(percent float64) {
	r.update(false, func(now *Progress) {
		now.Percent = afterTransfer + (afterConversion-afterTransfer)*percent/100
	})
}

// transfer is a stream whose bytes are counted, hashed and limited.
type transfer struct {
	stream    io.Reader
	total, at int64
	most      int64
	algorithm string
	hash      hash.Hash
	report    *reporter
	err       error // the first of the stream
}

// newTransfer returns the transfer of a stream, whose bytes come from a reader.
func newTransfer(c Checksum, s *Stream, from io.Reader, most int64, report *reporter) *transfer {
	t := &transfer{stream: from, total: s.Total, most: most, report: report}
	t.algorithm, t.hash = c.newHash()
	return t
}

// Read implements io.Reader.
func (t *transfer) Read(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	n, err := t.stream.Read(p)
	t.hash.Write(p[:n])
	t.moved(t.at + int64(n))
	if t.at > t.most {
		err = Refuse(TransferTooLarge, "the image has more than %s, the most for such a disk", Size(t.most))
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, new(*Error)) && !isEndOfContext(err) {
		err = Refuse(TransferBroken, "the transfer broke after %d bytes: %w", t.at, err).Again()
	}
	t.err = err
	return n, err
}

func isEndOfContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// moved notes how far the transfer is.
func (t *transfer) moved(to int64) {
	t.at = to
	t.report.transferred(to)
}

// drain reads the rest, of which what has been read so far needs nothing.
func (t *transfer) drain() error {
	_, err := io.Copy(io.Discard, t)
	return err
}

// checksum returns that of all that was read.
func (t *transfer) checksum() Checksum {
	return Checksum{t.algorithm, hex.EncodeToString(t.hash.Sum(nil))}
}
