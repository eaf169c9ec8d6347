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

// Default limits of a session.
const (
	// maxMessage is the maximum length of a message from QEMU, in bytes. The longest real message, the reply to
	// query-qmp-schema, has 0.2 MB.
	maxMessage = 16 << 20
	// maxEvents is the maximum number of unread events.
	maxEvents = 1024

	maxEventBytes = 4 << 20
)

// Session is one connection to QEMU's monitor. All methods are safe for concurrent use. The caller must close it.
type Session struct {
	conn   net.Conn
	log    *slog.Logger
	lines  *lineReader
	events *eventQueue
	hello  *Pending // qmp_capabilities

	wake chan struct{} // notifies write of a command in the outbox
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

// Option changes the limits or the logging of a session.
type Option func(*settings)

// WithMaxMessage sets the maximum length of a message from QEMU, in bytes. A longer message ends the session with
// ErrTooLarge.
func WithMaxMessage(bytes int) Option { return func(s *settings) { s.maxMessage = bytes } }

// WithMaxEvents sets the maximum number of unread events, at least 1.
func WithMaxEvents(n int) Option { return func(s *settings) { s.maxEvents = max(n, 1) } }

// WithTrace logs commands (redacted), their outcomes and the names of events, at debug level.
func WithTrace(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// New starts a session on an unused connection and sends qmp_capabilities. It does not wait for QEMU, which need not
// even be running, so you can start commands immediately. The session takes ownership of conn.
func New(conn net.Conn, options ...Option) *Session {
	set := settings{maxMessage: maxMessage, maxEvents: maxEvents, log: slog.New(slog.DiscardHandler)}
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
	go s.readMessages()
	go s.writeOutbox()
	go s.events.listenAt()
	return s
}

// Ready waits until QEMU has sent its greeting and accepted the negotiation. After that, Version is known.
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

// Events returns the channel of QEMU's events, the same for each call. The channel is closed when the session has
// ended and all earlier events have been read, or immediately by Close.
func (s *Session) Events() <-chan Event { return s.events.out }

// Dropped returns the number of events that were dropped because too many were unread. When it grows, query QEMU for
// the state that the events describe.
func (s *Session) Dropped() uint64 {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	return s.events.dropped
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns the reason why the session ended, as an error that wraps ErrClosed, or nil while the session is open.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session. Running commands end with ErrClosed, and unread events are dropped. QEMU keeps running.
// You can call Close more than once.
func (s *Session) Close() error {
	s.endSession(ErrClosed)
	s.events.discardAll()
	return nil
}

// failWith ends the session because of cause.
func (s *Session) failWith(cause error) {
	switch {
	case errors.Is(cause, io.ErrUnexpectedEOF):
		cause = fmt.Errorf("QEMU's last message is incomplete: %w", cause)
	case errors.Is(cause, io.EOF), errors.Is(cause, syscall.ECONNRESET):
		cause = fmt.Errorf("QEMU closed the connection: %w", cause)
	}
	s.endSession(fmt.Errorf("%w: %w", ErrClosed, cause))
}

func (s *Session) endSession(err error) {
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
		p.finishWith(nil, err)
	}
	close(s.done)
	s.events.endQueue()
}

// readMessages reads everything that QEMU sends, until the connection ends.
func (s *Session) readMessages() {
	for {
		line, err := s.lines.nextLine()
		if err != nil {
			s.failWith(err)
			return
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		m, err := parseMessage(line)
		if err != nil {
			s.failWith(err)
			return
		}
		s.dispatchMessage(m)
	}
}

func (s *Session) dispatchMessage(m *message) {
	switch {
	case m.Event != "":
		s.log.Debug("QMP event", "event", m.Event)
		s.events.putEvent(m.asEvent())
	case m.QMP != nil:
		s.mu.Lock()
		s.version = m.QMP.Version
		s.mu.Unlock()
	case m.Error != nil && m.ID == nil: // QEMU could not parse a command
		s.log.Warn("QMP error without command ignored", "err", m.Error)
	case m.Return != nil || m.Error != nil:
		s.replyTo(m)
	default: // a message of a newer protocol
		s.log.Debug("QMP message of unknown kind ignored")
	}
}

// replyTo passes a return or an error to its command.
func (s *Session) replyTo(m *message) {
	p := s.claimCommand(m)
	if p == nil {
		s.log.Debug("QMP reply without command ignored", "id", string(m.ID))
		return
	}
	if m.Error == nil {
		p.finishWith(m.Return, nil)
		return
	}
	if p == s.hello {
		s.failWith(fmt.Errorf("negotiate capabilities: %w", m.Error))
	}
	p.finishWith(nil, m.Error)
}

// claimCommand finds the command for a reply, or returns nil.
func (s *Session) claimCommand(m *message) *Pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := strconv.ParseUint(string(m.ID), 10, 64)
	if err != nil {
		return nil // not an id of this session
	}
	p := s.waiting[id]
	if p == nil || p.line != nil { // unknown, or not yet sent
		return nil
	}
	delete(s.waiting, id)
	return p
}

// Run sends a command and waits for its reply. It returns the value of "return" as QEMU wrote it. The error is an
// *Error if QEMU refused the command, ErrClosed if the connection ended, and otherwise the context's error. In the
// last case QEMU may have executed the command, unless the text of the error contains "not sent".
func (s *Session) Run(ctx context.Context, c Command) (json.RawMessage, error) {
	p := s.Start(c)
	reply, err := p.Wait(ctx)
	if err == nil || p.hasEnded() {
		return reply, err
	}
	if s.withdrawCommand(p) {
		err = fmt.Errorf("%w (not sent)", err)
		p.finishWith(nil, err)
	}
	return nil, err
}

// Start queues a command, in the order of the calls, without waiting.
func (s *Session) Start(c Command) *Pending {
	s.log.Debug("QMP command", "command", c)
	p := &Pending{session: s, command: c.Execute, done: make(chan struct{})}
	if err := s.enqueueCommand(p, c); err != nil {
		p.finishWith(nil, err)
	}
	return p
}

// Call queues a command as Start does. A goroutine of the session calls then once, with the result of Wait, and is
// blocked until then returns. If Call returns an error, the command was not queued, and then is not called.
func (s *Session) Call(c Command, then func(json.RawMessage, error)) (*Pending, error) {
	s.log.Debug("QMP command", "command", c)
	p := &Pending{session: s, command: c.Execute, done: make(chan struct{}), then: then}
	if err := s.enqueueCommand(p, c); err != nil {
		return nil, fmt.Errorf("QMP %s: %w", c.Execute, err)
	}
	return p, nil
}

// Greeted is closed when QEMU has sent its greeting and accepted the negotiation, so that Version is known, or when
// that can no longer happen.
func (s *Session) Greeted() <-chan struct{} { return s.hello.done }
