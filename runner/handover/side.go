package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"vmop/printable"
	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
)

// Times.
const (
	replyTime = 20 * time.Second       // for what is said to QEMU
	endTime   = 20 * time.Second       // for the end of a QEMU, or of what it does
	pollTime  = 100 * time.Millisecond // between two questions how far QEMU is, unless its events say more
	cutTime   = 2 * time.Second        // after which the copies of disks end without the target
	endPause  = 5 * time.Millisecond   // the same when it is to end what it does
	wordTime  = time.Second            // in which the target says why it couldn't load the guest
)

// What a side says of a QEMU that has ended: so many lines, and characters.
const wordLines, mostWords = 3, 500

// Progress is how far a migration is.
type Progress struct {
	Stage migrate.Stage `json:"stage"`
	// Transferred, Remaining and Total are bytes of the guest's memory.
	Transferred int64 `json:"transferred,omitempty"`
	Remaining   int64 `json:"remaining,omitempty"`
	Total       int64 `json:"total,omitempty"`
	// Throttle is how much QEMU slows the guest down, in percent.
	Throttle int `json:"throttle,omitempty"`
	// DiskCopied and DiskTotal are bytes of disks that are copied. What the guest writes meanwhile is added to both.
	DiskCopied int64 `json:"diskCopied,omitempty"`
	DiskTotal  int64 `json:"diskTotal,omitempty"`
}

// A happening is an event, and what comes with it.
type happening struct {
	event migrate.Event
	conn  *link.Conn      // that has been made, or that it is of; nil: of none
	data  json.RawMessage // of a message
	err   error           // why it has happened
	// answer gets whether it is taken in; nil: nothing waits for that.
	answer chan error
}

// A side is what both have.
type side struct {
	machine Machine // nil: there is none yet
	dataDir string
	note    Note
	log     *slog.Logger

	mu   sync.Mutex
	tell func(Progress) // nil when Run has returned

	inbox chan happening
	conn  *link.Conn
	why   error // the first reason for which the guest doesn't move
	last  migrate.Record
}

func newSide(m Machine, dataDir string, n Note, log *slog.Logger, tell func(Progress)) *side {
	return &side{machine: m, dataDir: dataDir, note: n, log: log, tell: tell, inbox: make(chan happening, 16)}
}

// publish says how far it is, as long as Run lasts.
func (s *side) publish(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tell != nil {
		s.tell(p)
	}
}

// hush ends that.
func (s *side) hush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = nil
}

// happens gives an event to the goroutine of the side.
func (s *side) happens(ctx context.Context, h happening) {
	select {
	case s.inbox <- h:
	case <-ctx.Done():
	}
}

// next waits for an event. One of a connection that has been given up is none.
func (s *side) next(ctx context.Context) (happening, error) {
	for {
		select {
		case <-ctx.Done():
			return happening{}, context.Cause(ctx)
		case h := <-s.inbox:
			if ctx.Err() != nil { // what it has ended is not what has happened
				return happening{}, context.Cause(ctx)
			}
			if h.event != migrate.Connected && h.conn != nil && h.conn != s.conn {
				continue
			}
			if h.event == migrate.Disconnected {
				s.disconnect()
			}
			if h.err != nil && s.why == nil {
				s.why = h.err
			}
			return h, nil
		}
	}
}

// connect takes a connection into use, in the place of an earlier one.
func (s *side) connect(ctx context.Context, c *link.Conn) {
	s.disconnect()
	s.conn = c
	go func() {
		for {
			f, err := c.Receive()
			if err != nil {
				s.happens(ctx, happening{event: migrate.Disconnected, conn: c})
				return
			}
			s.happens(ctx, happening{event: migrate.Heard(f.Message), conn: c, data: f.Data})
		}
	}()
}

func (s *side) disconnect() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// send sends a message; without a connection it is lost, and one that doesn't take it is closed.
func (s *side) send(m migrate.Message, data any) {
	s.log.Debug("migration: message", "send", string(m))
	if s.conn == nil {
		return
	}
	if err := s.conn.Send(m, data); err != nil {
		s.log.Warn("migration: a message is lost", "err", err)
		_ = s.conn.Close() // its reader brings Disconnected
	}
}

// write records how far the migration is.
func (s *side) write(r migrate.Record) error {
	if r == migrate.NoRecord && s.last == migrate.Taken {
		s.note.Left = nil // it has come back
	}
	s.note.Record = r
	if err := s.note.Write(s.dataDir); err != nil {
		s.log.Error("migration: it is not recorded how far it is", "record", string(r), "err", err)
		return err
	}
	s.last = r
	return nil
}

// watch brings the end of QEMU as an event.
func (s *side) watch(ctx context.Context) {
	done := s.machine.Done()
	go func() {
		select {
		case <-done:
			s.happens(ctx, happening{event: migrate.QEMUEnded})
		case <-ctx.Done():
		}
	}()
}

// quit ends QEMU.
func (s *side) quit(ctx context.Context) {
	if s.machine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err := s.machine.Quit(ctx); err != nil {
		s.log.Error("migration: QEMU does not end", "err", err)
	}
}

// reason is why a migration has ended, for the other side.
func (s *side) reason() any {
	if s.why == nil {
		return nil
	}
	return s.why.Error()
}

// lastWords is the end of a QEMU that couldn't load a guest: which device it was is in its last lines.
func lastWords(said string) error {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	last := printable.Clip(printable.Line(strings.Join(lines[max(0, len(lines)-wordLines):], "; ")), mostWords)
	if last == "" {
		return errors.New("QEMU has ended")
	}
	return fmt.Errorf("QEMU has ended: %s", last)
}

// saidBy returns the reason that the other side has given.
func saidBy(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) != nil || text == "" {
		return "it gives no reason"
	}
	return printable.Line(text)
}
