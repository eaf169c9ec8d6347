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

// Phase is the current step of an import.
type Phase string

// Phases, in order.
const (
	Connecting   Phase = "Connecting"
	Transferring Phase = "Transferring"
	Converting   Phase = "Converting"
	Syncing      Phase = "Syncing" // to the disk
	Done         Phase = "Done"
)

// Progress is the progress of an import.
type Progress struct {
	Phase       Phase   `json:"phase"`
	Bytes       int64   `json:"bytes"`           // transferred
	Total       int64   `json:"total,omitempty"` // to be transferred; 0 if unknown
	Percent     float64 `json:"percent"`         // of the whole import, 0 to 100; decreases with another attempt
	Format      Format  `json:"format,omitempty"`
	VirtualSize int64   `json:"virtualSize,omitempty"` // bytes
}

// Percentage of the whole import that is complete after the transfer and after the conversion.
const (
	afterTransfer   = 75
	afterConversion = 98
)

// often is the minimum time between two reports within a phase.
const often = 250 * time.Millisecond

// reporter reports the progress to the caller of an import.
type reporter struct {
	mu   sync.Mutex
	to   func(Progress)
	now  Progress
	last time.Time
	late *time.Timer // reports the rest later; nil if everything was reported
}

func newReporter(to func(Progress)) *reporter { return &reporter{to: to} }

// updateProgress changes the progress. It reports the change immediately or, if the last report is too recent, a little
// later.
func (r *reporter) updateProgress(always bool, change func(*Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.now)
	switch since := time.Since(r.last); {
	case r.to == nil:
	case always || since >= often:
		r.reportProgress()
	case r.late == nil:
		r.late = time.AfterFunc(often-since, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.late != nil {
				r.reportProgress()
			}
		})
	}
}

// reportProgress calls the caller. The mutex must be locked.
func (r *reporter) reportProgress() {
	if r.late != nil {
		r.late.Stop()
	}
	r.late, r.last = nil, time.Now()
	r.to(r.now)
}

// stopReporting ends the reports.
func (r *reporter) stopReporting() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late != nil {
		r.late.Stop()
	}
	r.late, r.to = nil, nil
}

func (r *reporter) setPhase(p Phase) {
	r.updateProgress(true, func(now *Progress) {
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

func (r *reporter) beginPhase(p Phase, total int64) {
	r.updateProgress(true, func(now *Progress) { now.Phase, now.Total = p, total })
}

func (r *reporter) setFormat(info Info) {
	r.updateProgress(true, func(now *Progress) { now.Format, now.VirtualSize = info.Format, info.VirtualSize })
}

func (r *reporter) setTransferred(bytes int64) {
	r.updateProgress(false, func(now *Progress) {
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

func (r *reporter) setConverted(percent float64) {
	r.updateProgress(false, func(now *Progress) {
		now.Percent = afterTransfer + (afterConversion-afterTransfer)*percent/100
	})
}

// transfer is a stream that counts, hashes and limits its bytes.
type transfer struct {
	stream    io.Reader
	total, at int64
	most      int64
	algorithm string
	hash      hash.Hash
	report    *reporter
	err       error // the first error of the stream
}

// newTransfer returns the transfer of a stream with bytes from a reader.
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
	t.noteOffset(t.at + int64(n))
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

// noteOffset records the position of the transfer.
func (t *transfer) noteOffset(to int64) {
	t.at = to
	t.report.setTransferred(to)
}

// drainRest reads the rest of the stream, for its checksum and its errors.
func (t *transfer) drainRest() error {
	_, err := io.Copy(io.Discard, t)
	return err
}

// totalChecksum returns the checksum of all bytes read.
func (t *transfer) totalChecksum() Checksum {
	return Checksum{t.algorithm, hex.EncodeToString(t.hash.Sum(nil))}
}
