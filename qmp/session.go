package qmp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// What a session allows unless told otherwise.
const (
	// MaxMessage is the longest message that is read from QEMU, in bytes. The
	// longest real one, query-qmp-schema's reply, has 0.2 MB.
	MaxMessage = 16 << 20
	// MaxEvents is the number of events that wait for their reader.
	MaxEvents = 1024

	maxEventBytes = 4 << 20
)

// Session is one connection to QEMU's monitor. All methods may be called from
// any goroutine. It must be closed.
type Session struct {
	conn   net.Conn
	log    *slog.Logger
	lines  *lineReader
	events *eventQueue
	hello  *Pending // qmp_capabilities

	wake chan struct{} // tells write of a command in the outbox
	done chan struct{} // closed when err is set

	mu      sync.Mutex
	lastID  uint64
	waiting map[uint64]*Pending // without reply, by id
	outbox  []*Pending          // not sent, in order
	version Version
	err     error
}

type settings struct {
	maxMessage int
	maxEvents  int
	log        *slog.Logger
}

// Option changes what a session allows or tells.
type Option func(*settings)

// WithMaxMessage sets the longest message that is read, in bytes. A longer one
// ends the session with ErrTooLarge.
func WithMaxMessage(bytes int) Option { return func(s *settings) { s.maxMessage = bytes } }

// WithMaxEvents sets the number of events that wait for their reader, at least 1.
func WithMaxEvents(n int) Option { return func(s *settings) { s.maxEvents = max(n, 1) } }

// WithTrace logs commands (redacted), the outcome of each and the names of
// events, at debug level.
func WithTrace(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// New begins a session on a connection that is still unused,
// and sends qmp_capabilities. It does not wait for QEMU, which need not even run:
// commands may be started at once. The session owns conn from now on.
func New(conn net.Conn, options ...Option) *Session {
	set := settings{maxMessage: MaxMessage, maxEvents: MaxEvents, log: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(&set)
	}
	s := &Session{
		conn:    conn,
		log:     set.log,
		lines:   newLineReader(conn, set.maxMessage),
		events:  newEventQueue(set.maxEvents, maxEventBytes),
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		waiting: map[uint64]*Pending{},
	}
	s.hello = s.Start(Command{Execute: "qmp_capabilities"})
	go s.read()
	go s.write()
	go s.events.pump()
	return s
}

// Ready waits until QEMU has greeted and accepted the negotiation, so that
// Version is known.
func (s *Session) Ready(ctx context.Context) error {
	_, err := s.hello.Wait(ctx)
	return err
}

// Version returns the version from QEMU's greeting, zero before Ready.
func (s *Session) Version() Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Events returns the channel of QEMU's events, the same one each time. It is
// closed when the session has ended and all events before that were read, or
// at once by Close.
func (s *Session) Events() <-chan Event { return s.events.out }

// Dropped returns the number of events that were dropped because too many
// waited. When it grows, query QEMU for the state that the events are about.
func (s *Session) Dropped() uint64 {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	return s.events.dropped
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended, an error that wraps ErrClosed, or nil
// while it lasts.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session; commands under way end with ErrClosed, events that
// were not read are forgotten. QEMU keeps running. It may be called more than once.
func (s *Session) Close() error {
	s.end(ErrClosed)
	s.events.discard()
	return nil
}

// fail ends the session because of cause.
func (s *Session) fail(cause error) {
	switch {
	case errors.Is(cause, io.ErrUnexpectedEOF):
		cause = fmt.Errorf("QEMU's last message is incomplete: %w", cause)
	case errors.Is(cause, io.EOF), errors.Is(cause, syscall.ECONNRESET):
		cause = fmt.Errorf("QEMU closed the connection: %w", cause)
	}
	s.end(fmt.Errorf("%w: %w", ErrClosed, cause))
}

func (s *Session) end(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	waiting := s.waiting
	s.waiting, s.outbox = nil, nil
	s.mu.Unlock()

	s.conn.Close()
	for _, p := range waiting {
		p.finish(nil, err)
	}
	close(s.done)
	s.events.end()
}

// read takes in everything that QEMU sends, until the connection ends.
func (s *Session) read() {
	for {
		line, err := s.lines.next()
		if err != nil {
			s.fail(err)
			return
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		m, err := parse(line)
		if err != nil {
			s.fail(err)
			return
		}
		s.dispatch(m)
	}
}

func (s *Session) dispatch(m *message) {
	switch {
	case m.Event != "":
		s.log.Debug("QMP event", "event", m.Event)
		s.events.put(m.event())
	case m.QMP != nil:
		s.mu.Lock()
		s.version = m.QMP.Version
		s.mu.Unlock()
	case m.Error != nil && m.ID == nil: // QEMU could not parse what was sent
		s.log.Warn("QMP error without command ignored", "err", m.Error)
	case m.Return != nil || m.Error != nil:
		s.reply(m)
	default: // a message of a newer protocol
		s.log.Debug("QMP message of unknown kind ignored")
	}
}

// reply gives a return or an error to the command it belongs to.
func (s *Session) reply(m *message) {
	p := s.claim(m)
	if p == nil {
		s.log.Debug("QMP reply without command ignored", "id", string(m.ID))
		return
	}
	if m.Error == nil {
		p.finish(m.Return, nil)
		return
	}
	if p == s.hello {
		s.fail(fmt.Errorf("negotiate capabilities: %w", m.Error))
	}
	p.finish(nil, m.Error)
}

// claim finds the command that a message replies to, nil if there is none.
func (s *Session) claim(m *message) *Pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := strconv.ParseUint(string(m.ID), 10, 64)
	if err != nil {
		return nil // not an id of ours
	}
	p := s.waiting[id]
	if p == nil || p.line != nil { // unknown, or not even sent
		return nil
	}
	delete(s.waiting, id)
	return p
}

// Run sends a command and waits for its reply. The value of "return" is returned
// as QEMU wrote it. Errors: *Error if QEMU refused, ErrClosed if the connection
// ended, else the context's. After the context's error the command may or may not
// have been carried out, except that the text says when it was not sent.
func (s *Session) Run(ctx context.Context, c Command) (json.RawMessage, error) {
	p := s.Start(c)
	reply, err := p.Wait(ctx)
	if err == nil || p.ended() {
		return reply, err
	}
	if s.withdraw(p) {
		err = fmt.Errorf("%w (not sent)", err)
		p.finish(nil, err)
	}
	return nil, err
}

// Start queues a command, in the order of the calls, and does not wait.
func (s *Session) Start(c Command) *Pending {
	s.log.Debug("QMP command", "command", c)
	p := &Pending{session: s, command: c.Execute, done: make(chan struct{})}
	if err := s.enqueue(p, c); err != nil {
		p.finish(nil, err)
	}
	return p
}

// Call queues a command as Start does. What Wait would return is given to then,
// once, from a goroutine of the session, which does nothing else until then
// returns. With an error nothing was queued, and then is not called.
func (s *Session) Call(c Command, then func(json.RawMessage, error)) (*Pending, error) {
	s.log.Debug("QMP command", "command", c)
	p := &Pending{session: s, command: c.Execute, done: make(chan struct{}), then: then}
	if err := s.enqueue(p, c); err != nil {
		return nil, fmt.Errorf("QMP %s: %w", c.Execute, err)
	}
	return p, nil
}

// Greeted is closed when QEMU has greeted and accepted the negotiation, so that
// Version is known, or when that cannot happen any more.
func (s *Session) Greeted() <-chan struct{} { return s.hello.done }
