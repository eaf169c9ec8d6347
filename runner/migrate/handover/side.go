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

	"vmop/internal/printable"
	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
	"vmop/vmstatus"
)

// Timeouts and intervals.
const (
	replyTime = 20 * time.Second       // for commands to QEMU
	endTime   = 20 * time.Second       // for the end of a QEMU, or of its migration
	pollTime  = 100 * time.Millisecond // between two queries of QEMU's progress, unless an event comes first
	cutTime   = 2 * time.Second        // until the copies of disks are ended without the target
	endPause  = 5 * time.Millisecond   // between two queries while QEMU ends its work
	wordTime  = time.Second            // for the target's reason why it could not load the guest
)

// wordLines and mostWords limit the reported output of an ended QEMU, in lines and characters.
const wordLines, mostWords = 3, 500

// Progress is the progress of a migration.
type Progress = vmstatus.Progress

// A happening is an event with its data.
type happening struct {
	event migrate.Event
	conn  *link.Conn      // the new connection, or the connection of the event; nil: none
	data  json.RawMessage // of a message
	err   error           // why it has happened
	// answer receives the result of the event; may be nil.
	answer chan error
}

// A side contains what source and target have in common.
type side struct {
	machine Machine // nil until QEMU runs
	dataDir string
	note    Note
	log     *slog.Logger

	mu   sync.Mutex
	tell func(Progress) // nil when Run has returned

	inbox chan happening
	conn  *link.Conn
	why   error // the first reason why the guest does not move
	last  migrate.Record
}

func newSide(m Machine, dataDir string, n Note, log *slog.Logger, tell func(Progress)) *side {
	return &side{machine: m, dataDir: dataDir, note: n, log: log, tell: tell, inbox: make(chan happening, 16)}
}

// publishProgress reports the progress while Run is active.
func (s *side) publishProgress(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tell != nil {
		s.tell(p)
	}
}

// stopPublishing ends the reports.
func (s *side) stopPublishing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = nil
}

// raiseEvent passes an event to the side's goroutine.
func (s *side) raiseEvent(ctx context.Context, h happening) {
	select {
	case s.inbox <- h:
	case <-ctx.Done():
	}
}

// nextEvent waits for the next event. It skips events of connections that have been given up.
func (s *side) nextEvent(ctx context.Context) (happening, error) {
	for {
		select {
		case <-ctx.Done():
			return happening{}, context.Cause(ctx)
		case h := <-s.inbox:
			if ctx.Err() != nil { // events that result from the end of ctx are not real
				return happening{}, context.Cause(ctx)
			}
			if h.event != migrate.Connected && h.conn != nil && h.conn != s.conn {
				continue
			}
			if h.event == migrate.Disconnected {
				s.dropConnection()
			}
			if h.err != nil && s.why == nil {
				s.why = h.err
			}
			return h, nil
		}
	}
}

// useConnection starts to use a connection, and closes the previous connection.
func (s *side) useConnection(ctx context.Context, c *link.Conn) {
	s.dropConnection()
	s.conn = c
	go func() {
		for {
			f, err := c.Receive()
			if err != nil {
				s.raiseEvent(ctx, happening{event: migrate.Disconnected, conn: c})
				return
			}
			s.raiseEvent(ctx, happening{event: migrate.Heard(f.Message), conn: c, data: f.Data})
		}
	}()
}

func (s *side) dropConnection() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// sendMessage sends a message. Without a connection the message is lost. A connection that does not accept it is
// closed.
func (s *side) sendMessage(m migrate.Message, data any) {
	s.log.Debug("migration: message", "send", string(m))
	if s.conn == nil {
		return
	}
	if err := s.conn.Send(m, data); err != nil {
		s.log.Warn("migration: a message is lost", "err", err)
		_ = s.conn.Close() // its reader reports Disconnected
	}
}

// writeRecord records the state of the migration.
func (s *side) writeRecord(r migrate.Record) error {
	if r == migrate.NoRecord && s.last == migrate.Taken {
		s.note.Left = nil // the guest has come back
	}
	s.note.Record = r
	if err := s.note.Write(s.dataDir); err != nil {
		s.log.Error("migration: it is not recorded how far it is", "record", string(r), "err", err)
		return err
	}
	s.last = r
	return nil
}

// watchQEMU reports the end of QEMU as an event.
func (s *side) watchQEMU(ctx context.Context) {
	done := s.machine.Done()
	go func() {
		select {
		case <-done:
			s.raiseEvent(ctx, happening{event: migrate.QEMUEnded})
		case <-ctx.Done():
		}
	}()
}

// quitQEMU ends QEMU.
func (s *side) quitQEMU(ctx context.Context) {
	if s.machine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err := s.machine.Quit(ctx); err != nil {
		s.log.Error("migration: QEMU does not end", "err", err)
	}
}

// endReason returns why the migration has ended, for the other side.
func (s *side) endReason() any {
	if s.why == nil {
		return nil
	}
	return s.why.Error()
}

// lastWords returns an error with the last lines of a QEMU that could not load a guest. They usually name the
// device.
func lastWords(said string) error {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	last := printable.Clip(printable.Line(strings.Join(lines[max(0, len(lines)-wordLines):], "; ")), mostWords)
	if last == "" {
		return errors.New("QEMU has ended")
	}
	return fmt.Errorf("QEMU has ended: %s", last)
}

// saidBy returns the reason in a message of the other side.
func saidBy(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) != nil || text == "" {
		return "it gives no reason"
	}
	return printable.Line(text)
}
