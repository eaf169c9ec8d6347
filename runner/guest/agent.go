package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"

	"vmop/qmp"
)

// ErrClosed is the error of calls after QEMU has closed the socket or Close was called. To continue, dial again.
var ErrClosed = errors.New("the guest agent's socket is closed")

// Agent is a connection to a guest agent. It is synchronized unless a call ended early; the next call then begins
// by synchronizing.
type Agent struct {
	conn net.Conn
	turn chan struct{} // holds one token; the token's holder owns the fields below

	in     *reader
	lastID int64
	synced bool
}

// Dial connects to the socket of the agent's port and waits until the agent has answered. If no agent is running,
// it waits forever: give ctx a deadline.
func Dial(ctx context.Context, path string) (*Agent, error) {
	a, err := Connect(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := a.Synchronise(ctx); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Connect connects to the socket of the agent's port without waiting for the agent.
func Connect(ctx context.Context, path string) (*Agent, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connect to guest agent %s: %w", path, err)
	}
	return newAgent(conn), nil
}

// Synchronise waits until the agent answers and the wire is free of earlier data.
func (a *Agent) Synchronise(ctx context.Context) error {
	err := a.runAlone(ctx, func() error {
		a.synced = false
		return a.synchroniseEnds()
	})
	if err != nil {
		return fmt.Errorf("synchronise with guest agent %s: %w", a.conn.RemoteAddr(), err)
	}
	return nil
}

func newAgent(conn net.Conn) *Agent {
	a := &Agent{
		conn: conn,
		turn: make(chan struct{}, 1),
		in:   newReader(conn),
		// Another process may have left its own commands on the wire.
		lastID: rand.Int64N(1 << 48),
	}
	a.turn <- struct{}{}
	return a
}

// Close closes the socket, which ends a call in progress.
func (a *Agent) Close() error { return a.conn.Close() }

// Run sends a command and returns the value of "return" in its reply. The error is a *qmp.Error if the agent
// refused, ErrClosed, the context's error, or a description of an invalid reply. Like a qmp.Command it may
// contain a password; errors do not contain its arguments.
func (a *Agent) Run(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	var value json.RawMessage
	err := a.runExclusively(ctx, func() error {
		id, err := a.sendCommand(c)
		if err != nil {
			return err
		}
		value, err = a.receiveReply(id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("guest agent %s: %w", c.Execute, err)
	}
	return value, nil
}

// runExclusively runs a dialogue with the agent: alone, synchronized, and until ctx ends.
func (a *Agent) runExclusively(ctx context.Context, dialogue func() error) error {
	return a.runAlone(ctx, func() error {
		if err := a.synchroniseEnds(); err != nil {
			return err
		}
		return dialogue()
	})
}

// runAlone runs a dialogue while no other is in progress, until ctx ends. Any result other than success or a refusal
// leaves the agent unsynchronized.
func (a *Agent) runAlone(ctx context.Context, dialogue func() error) error {
	select {
	case <-a.turn:
		defer func() { a.turn <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := a.conn.SetDeadline(time.Time{}); err != nil {
		return ErrClosed
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		a.conn.SetDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	err := dialogue()
	if !stop() {
		<-interrupted // it must not hit the next dialogue
	}
	var refusal *qmp.Error
	a.synced = a.synced && (err == nil || errors.As(err, &refusal))
	return a.explainError(ctx, err)
}

// explainError names the cause of an error of the connection.
func (a *Agent) explainError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return fmt.Errorf("no reply: %w", context.Cause(ctx))
	case isEnd(err):
		a.conn.Close()
		return ErrClosed
	}
	return err
}

// request is a command on the wire. The agent repeats the id in its reply.
type request struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
	ID        int64  `json:"id"`
}

// reply is everything that an agent sends.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *qmp.Error      `json:"error"`
}

func (a *Agent) sendCommand(c qmp.Command) (id int64, err error) {
	a.lastID++
	line, err := json.Marshal(request{c.Execute, c.Arguments, a.lastID})
	if err != nil {
		return 0, fmt.Errorf("encode the command: %w", err)
	}
	_, err = a.conn.Write(append(line, '\n'))
	return a.lastID, err
}

// receiveReply returns the reply to the command with the id. It skips replies to other commands, which a correct agent
// never sends.
func (a *Agent) receiveReply(id int64) (json.RawMessage, error) {
	for {
		line, err := a.in.readLine()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			continue
		}
		r, err := parseReply(line)
		if err != nil {
			return nil, err
		}
		if value, err, mine := r.answerTo(id); mine {
			return value, err
		}
	}
}

// answerTo returns the content of the reply if it belongs to the command with the id, or has no id.
func (r *reply) answerTo(id int64) (value json.RawMessage, err error, mine bool) {
	if r.ID != nil && string(r.ID) != strconv.FormatInt(id, 10) {
		return nil, nil, false
	}
	switch {
	case r.Error != nil:
		return nil, &qmp.Error{Class: qmp.Class(fitText(string(r.Error.Class))), Desc: fitText(r.Error.Desc)}, true
	case r.Return != nil:
		return r.Return, nil, true
	}
	return nil, nil, false
}
