// Package goqemu gives a session of package qmp the shape of go-qemu's qmp.Monitor, so
// that code written for github.com/digitalocean/go-qemu, such as its generated
// commands (qmp/raw), runs on it. A test runs some of that on a real QEMU.
//
// It is a package of its own because go-qemu's package of the interface links six
// packages of go-libvirt, which no runner needs.
package goqemu

import (
	"context"
	"encoding/json"
	"fmt"

	goqemu "github.com/digitalocean/go-qemu/qmp"

	"vmop/qmp"
)

// Monitor returns a session as a qmp.Monitor of go-qemu. The interface's methods take
// no context: ctx is the one of all commands.
//
// Its events are the session's: use either its Events or the session's, not both.
// Disconnect closes the session.
func Monitor(ctx context.Context, session *qmp.Session) goqemu.Monitor {
	return &monitor{session: session, ctx: ctx}
}

type monitor struct {
	session *qmp.Session
	ctx     context.Context
}

// Connect waits until QEMU has greeted.
func (m *monitor) Connect() error { return m.session.Ready(m.ctx) }

// Disconnect closes the session.
func (m *monitor) Disconnect() error { return m.session.Close() }

// Run executes a command that is given as JSON and returns the whole reply. The
// command's own id is given back in it.
func (m *monitor) Run(command []byte) ([]byte, error) {
	var in struct {
		Execute   string          `json:"execute"`
		Arguments json.RawMessage `json:"arguments"`
		ID        json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(command, &in); err != nil {
		return nil, fmt.Errorf("read QMP command: %w", err)
	}
	c := qmp.Command{Execute: in.Execute}
	if in.Arguments != nil {
		c.Arguments = in.Arguments
	}
	value, err := m.session.Run(m.ctx, c)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Return json.RawMessage `json:"return"`
		ID     json.RawMessage `json:"id,omitempty"`
	}{value, in.ID})
}

// Events returns the session's events until ctx ends. An event whose data is not
// a JSON object comes without data.
func (m *monitor) Events(ctx context.Context) (<-chan goqemu.Event, error) {
	out := make(chan goqemu.Event)
	go func() {
		defer close(out)
		for {
			select {
			case e, open := <-m.session.Events():
				if !open {
					return
				}
				select {
				case out <- convert(e):
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func convert(e qmp.Event) goqemu.Event {
	g := goqemu.Event{Event: e.Name}
	if e.Data != nil {
		_ = json.Unmarshal(e.Data, &g.Data) // see Events
	}
	if !e.Time.IsZero() {
		g.Timestamp.Seconds = e.Time.Unix()
		g.Timestamp.Microseconds = int64(e.Time.Nanosecond() / 1000)
	}
	return g
}
