package agents

import (
	"context"
	"errors"
	"time"

	"vmop/runner/guest"
	"vmop/runner/status"
)

// Pauses before an agent is tried again that has not answered.
const (
	firstPause = time.Second
	longPause  = 5 * time.Minute
)

// An attendant speaks with the agent behind a port.
type attendant interface {
	// attend speaks with the agent until ctx ends, and returns why it ended
	// earlier.
	attend(ctx context.Context, a *attendance) error
	// reopened takes in that the guest has opened the port again while attend runs;
	// false ends attend, and begins anew.
	reopened() bool
	// gone returns what is true when there is no agent.
	gone() []status.Update
}

// A port is a virtio port of an agent. The driver's goroutine has it.
type port struct {
	agents *Agents
	who    attendant
	path   string      // of the socket that is the other end
	at     *attendance // nil while the port is closed
	last   *attendance // may still be leaving
}

// An attendance lasts from the opening of a port to its closing.
type attendance struct {
	port    *port
	path    string
	greeted bool // the agent may have been spoken with before
	end     context.CancelCauseFunc
	left    chan struct{} // closed when the attendant has left
	agent   *guest.Agent  // that it has handed over; read when left is closed
	live    *guest.Agent  // to whom it is connected; the driver's goroutine has it
}

// errTaken ends an attendance whose connection is needed for the guest's end.
var errTaken = errors.New("the guest is being asked to shut down")

// set makes the attendant come or leave.
func (p *port) set(open, greeted bool) {
	if open && p.at != nil && p.who.reopened() {
		return
	}
	if p.at != nil {
		p.at.end(nil)
		p.at = nil
		p.agents.cfg.Publish(p.who.gone()...)
	}
	if !open || p.agents.leaving() {
		return
	}
	before := p.last
	ctx, end := context.WithCancelCause(p.agents.ctx)
	p.at = &attendance{port: p, path: p.path, greeted: greeted, end: end, left: make(chan struct{})}
	p.last = p.at
	go p.at.run(ctx, before)
}

// claim ends the attendance at the port, and returns it; nil if there is none.
func (p *port) claim() *attendance {
	at := p.at
	if at != nil {
		at.end(errTaken)
	}
	return at
}

// run has the attendant at the port until ctx ends. The one before must have
// left.
func (a *attendance) run(ctx context.Context, before *attendance) {
	defer close(a.left)
	if before != nil {
		<-before.left
	}
	staying := a.port.agents.staying
	for pause := firstPause; ctx.Err() == nil && staying.Err() == nil; pause = min(2*pause, longPause) {
		err := a.port.who.attend(ctx, a)
		if staying.Err() != nil {
			return // what the guest has said last stays
		}
		a.greeted = true
		a.publish(ctx, a.port.who.gone()...)
		a.port.agents.cfg.Log.Debug("agent", "socket", a.path, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// publish updates the status by what the attendant has learned, unless the port
// was closed meanwhile.
func (a *attendance) publish(ctx context.Context, updates ...status.Update) {
	a.port.agents.cfg.Do(func() {
		if a.port.at == a && ctx.Err() == nil {
			a.port.agents.cfg.Publish(updates...)
		}
	})
}
