// Package goqemu adapts a session of package qmp to go-qemu's interface qmp.Monitor. Code for
// github.com/digitalocean/go-qemu, such as its generated commands (qmp/raw), therefore works with a session. A test
// runs some of that code on a real QEMU.
//
// It is a separate package because the go-qemu package with the interface links six packages of go-libvirt, which
// runners don't need.
package goqemu

import (
	"context"
	"encoding/json"
	"fmt"

	goqemu "github.com/digitalocean/go-qemu/qmp"

	"vmop/qmp"
)

// Monitor returns a session as a qmp.Monitor of go-qemu. The interface's methods take no context, so all commands
// use ctx.
//
// The monitor and the session share one stream of events: read them from only one of the two. Disconnect closes the
// session.
func Monitor(ctx context.Context, session *qmp.Session) goqemu.Monitor {
	return &monitor{session: session, ctx: ctx}
}

type monitor struct {
	session *qmp.Session
	ctx     context.Context
}

// Connect waits for QEMU's greeting.
func (m *monitor) Connect() error { return m.session.Ready(m.ctx) }

// Disconnect closes the session.
func (m *monitor) Disconnect() error { return m.session.Close() }

// Run executes a command in JSON and returns the whole reply, including the command's own id.
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

// Events returns the session's events until ctx ends. If the data of an event isn't a JSON object, the event has no
// data.
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
				case out <- convertEvent(e):
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

func convertEvent(e qmp.Event) goqemu.Event {
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
