package guest

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds on a log-in agent.
const (
	MaxLine   = 256 // bytes of a line; longer ones are passed over
	chunk     = 512 // bytes read at once
	chunks    = 32  // read without a pause
	chunkTime = 250 * time.Millisecond
	writeTime = 10 * time.Second // for an agent to take a line
	// What is taken in, unread, before a connection ends.
	drainTime  = 100 * time.Millisecond
	drainBytes = 1 << 20
)

// LoginAgent is a log-in agent, as it comes and goes. Its methods can be called
// from any goroutine.
type LoginAgent struct {
	mu    sync.Mutex
	login Login
	wake  chan struct{}
}

// NewLoginAgent returns one that nobody has heard of yet.
func NewLoginAgent() *LoginAgent { return &LoginAgent{wake: make(chan struct{}, 1)} }

// Want tells who shall be logged in; "" means nobody.
func (a *LoginAgent) Want(user string) { a.change(func(l *Login) { l.Want(user) }) }

// Reopened tells that the agent's port was opened again, while a conversation
// goes on: another agent listens, which may have announced itself or not.
func (a *LoginAgent) Reopened() { a.change(func(l *Login) { l.Opened(true) }) }

func (a *LoginAgent) change(by func(*Login)) {
	a.mu.Lock()
	by(&a.login)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // it will be seen
	}
}

// Converse speaks with the agent through the socket of its port until ctx ends,
// or the socket does; then it closes the socket and returns why. With greeted,
// the agent may have announced itself to somebody else before. tell is called
// with what is known when that changes.
func (a *LoginAgent) Converse(ctx context.Context, conn net.Conn, greeted bool, tell func(LoginState)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer conn.Close()
	var behind atomic.Bool
	defer func() {
		if behind.Load() {
			drain(conn)
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })()
	defer a.change((*Login).Closed)
	a.change(func(l *Login) { l.Opened(greeted) })
	heard := make(chan []string)
	go func() { cancel(listen(ctx, conn, heard, &behind)) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	told := LoginState{}
	for {
		select {
		case lines := <-heard:
			a.change(func(l *Login) {
				for _, line := range lines {
					l.Hear(line, time.Now())
				}
			})
			continue // to what it changes
		case <-a.wake:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		a.mu.Lock()
		now := time.Now()
		line := a.login.Say(now)
		state, wake := a.login.State(), a.login.Wake(now)
		a.mu.Unlock()
		if state != told {
			told = state
			tell(state)
		}
		if !wake.IsZero() {
			timer.Reset(wake.Sub(now))
		}
		if line == "" {
			continue
		}
		if err := say(conn, line); err != nil {
			return err
		}
	}
}

// drain takes in what an agent that talks without end has said and nobody has
// read. QEMU 7.2 holds such a port back, and would for ever if the connection
// ended then: no later agent would be heard.
func drain(conn net.Conn) {
	if conn.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.CopyN(io.Discard, conn, drainBytes)
	}
}

func say(conn net.Conn, line string) error {
	if err := conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	_, err := io.WriteString(conn, line+"\n")
	return err
}

// listen hands on the lines that arrive, those that arrive together in one
// piece. A guest that talks without end is heard slowly, and waits: listen is
// behind then.
func listen(ctx context.Context, conn io.Reader, heard chan<- []string, behind *atomic.Bool) error {
	limit := budget{every: chunkTime, burst: chunks}
	buffer := make([]byte, chunk)
	var s splitter
	for {
		for wait := limit.spend(time.Now()); wait > 0; wait = limit.spend(time.Now()) {
			behind.Store(true)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		n, err := conn.Read(buffer)
		if lines := s.split(buffer[:n]); len(lines) > 0 {
			select {
			case heard <- lines:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			return err
		}
	}
}

// splitter cuts what arrives into lines.
type splitter struct {
	begun []byte // of a line whose end has not arrived
	long  bool   // and that has more than MaxLine bytes
}

// split returns the lines that end in the piece, without their ends.
func (s *splitter) split(piece []byte) (lines []string) {
	for len(piece) > 0 {
		part, rest, end := bytes.Cut(piece, []byte{'\n'})
		piece = rest
		s.long = s.long || len(s.begun)+len(part) > MaxLine
		if !s.long {
			s.begun = append(s.begun, part...)
		}
		if !end {
			break
		}
		if !s.long {
			lines = append(lines, string(bytes.TrimSuffix(s.begun, []byte{'\r'})))
		}
		s.begun, s.long = s.begun[:0], false
	}
	return lines
}
