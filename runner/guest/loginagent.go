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

// Limits of a log-in agent.
const (
	maxLine   = 256 // bytes of a line; longer lines are ignored
	chunk     = 512 // bytes per read
	chunks    = 32  // read without a pause
	chunkTime = 250 * time.Millisecond
	writeTime = 10 * time.Second // for an agent to accept a line
	// Limits for discarding input before a connection is closed.
	drainTime  = 100 * time.Millisecond
	drainBytes = 1 << 20
)

// LoginAgent is a guest's log-in agent, across all its connections. Its methods may be called concurrently.
type LoginAgent struct {
	mu    sync.Mutex
	login Login
	wake  chan struct{}
}

// NewLoginAgent returns a LoginAgent without a connection.
func NewLoginAgent() *LoginAgent { return &LoginAgent{wake: make(chan struct{}, 1)} }

// Want sets the user to log in; "" means no user.
func (a *LoginAgent) Want(user string) { a.changeLogin(func(l *Login) { l.Want(user) }) }

// Reopened records that the agent's port was opened again during Converse: another agent listens, which may
// already have greeted.
func (a *LoginAgent) Reopened() { a.changeLogin(func(l *Login) { l.Opened(true) }) }

func (a *LoginAgent) changeLogin(by func(*Login)) {
	a.mu.Lock()
	by(&a.login)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default: // already pending
	}
}

// Converse runs the dialogue with the agent over the socket of its port until ctx or the connection ends. At the
// end it closes the connection and returns the cause. With greeted, the agent may have greeted an earlier runner.
// Converse calls publish with each new state.
func (a *LoginAgent) Converse(ctx context.Context, conn net.Conn, greeted bool, publish func(LoginState)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer conn.Close()
	var behind atomic.Bool
	defer func() {
		if behind.Load() {
			drainInput(conn)
		}
	}()
	defer context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })()
	defer a.changeLogin((*Login).Closed)
	a.changeLogin(func(l *Login) { l.Opened(greeted) })
	received := make(chan []string)
	go func() { cancel(listenForLines(ctx, conn, received, &behind)) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	published := LoginState{}
	for {
		select {
		case lines := <-received:
			a.changeLogin(func(l *Login) {
				for _, line := range lines {
					l.Receive(line, time.Now())
				}
			})
			continue // a.wake has been signaled
		case <-a.wake:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		a.mu.Lock()
		now := time.Now()
		line := a.login.Send(now)
		state, wake := a.login.State(), a.login.Wake(now)
		a.mu.Unlock()
		if state != published {
			published = state
			publish(state)
		}
		if !wake.IsZero() {
			timer.Reset(wake.Sub(now))
		}
		if line == "" {
			continue
		}
		if err := writeLine(conn, line); err != nil {
			return err
		}
	}
}

// drainInput discards unread input from an agent that writes without end. QEMU 7.2 throttles such a port. If the
// connection were closed in that state, QEMU would throttle it forever, and later agents could not be read.
func drainInput(conn net.Conn) {
	if conn.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.CopyN(io.Discard, conn, drainBytes)
	}
}

func writeLine(conn net.Conn, line string) error {
	if err := conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	_, err := io.WriteString(conn, line+"\n")
	return err
}

// listenForLines delivers the lines that arrive, in groups that arrived together. It limits the rate of a guest that
// writes without end, and then sets behind.
func listenForLines(ctx context.Context, conn io.Reader, received chan<- []string, behind *atomic.Bool) error {
	limit := budget{every: chunkTime, burst: chunks}
	buffer := make([]byte, chunk)
	var s splitter
	for {
		for wait := limit.spendOne(time.Now()); wait > 0; wait = limit.spendOne(time.Now()) {
			behind.Store(true)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		n, err := conn.Read(buffer)
		if lines := s.splitLines(buffer[:n]); len(lines) > 0 {
			select {
			case received <- lines:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			return err
		}
	}
}

// splitter splits the input into lines.
type splitter struct {
	begun []byte // of a line without its end
	long  bool   // this line has more than maxLine bytes
}

// splitLines returns the lines that end in the piece, without their ends.
func (s *splitter) splitLines(piece []byte) (lines []string) {
	for len(piece) > 0 {
		part, rest, end := bytes.Cut(piece, []byte{'\n'})
		piece = rest
		s.long = s.long || len(s.begun)+len(part) > maxLine
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
