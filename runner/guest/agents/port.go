package agents

import (
	"context"
	"errors"
	"time"

	"vmop/runner/guest"
	"vmop/runner/status"
)

// Pauses before retrying an agent that has not answered.
const (
	firstPause = time.Second
	longPause  = 5 * time.Minute
)

// An attendant communicates with the agent behind a port.
type attendant interface {
	// attend communicates with the agent until ctx ends, and returns why it ended earlier.
	attend(ctx context.Context, a *attendance) error
	// reopened reacts when the guest has opened the port again while attend runs. If it returns false, attend is
	// ended and called again.
	reopened() bool
	// gone returns the status without an agent.
	gone() []status.Update
}

// A port is a virtio port of an agent. The driver's goroutine owns it.
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
	greeted bool // an earlier runner may have communicated with the agent
	end     context.CancelCauseFunc
	left    chan struct{} // closed when the attendant has left
	agent   *guest.Agent  // handed over by the attendant; read when left is closed
	live    *guest.Agent  // connected agent; owned by the driver's goroutine
}

// errTaken ends an attendance when its connection is needed to shut the guest down.
var errTaken = errors.New("the guest is being asked to shut down")

// setOpen makes the attendant connect or leave.
func (p *port) setOpen(open, greeted bool) {
	if open && p.at != nil && p.who.reopened() {
		return
	}
	if p.at != nil {
		p.at.end(nil)
		p.at = nil
		p.agents.cfg.Publish(p.who.gone()...)
	}
	if !open || p.agents.isLeaving() {
		return
	}
	before := p.last
	ctx, end := context.WithCancelCause(p.agents.ctx)
	p.at = &attendance{port: p, path: p.path, greeted: greeted, end: end, left: make(chan struct{})}
	p.last = p.at
	go p.at.runAttendance(ctx, before)
}

// claimAttendance ends the attendance at the port, and returns it; nil if there is none.
func (p *port) claimAttendance() *attendance {
	at := p.at
	if at != nil {
		at.end(errTaken)
	}
	return at
}

// runAttendance keeps the attendant at the port until ctx ends. It waits until the previous attendant has left.
func (a *attendance) runAttendance(ctx context.Context, before *attendance) {
	defer close(a.left)
	if before != nil {
		<-before.left
	}
	staying := a.port.agents.staying
	for pause := firstPause; ctx.Err() == nil && staying.Err() == nil; pause = min(2*pause, longPause) {
		err := a.port.who.attend(ctx, a)
		if staying.Err() != nil {
			return // the guest's last reports are kept
		}
		a.greeted = true
		a.publishUpdates(ctx, a.port.who.gone()...)
		a.port.agents.cfg.Log.Debug("agent", "socket", a.path, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// publishUpdates updates the status with the attendant's results, unless the port has been closed.
func (a *attendance) publishUpdates(ctx context.Context, updates ...status.Update) {
	a.port.agents.cfg.Do(func() {
		if a.port.at == a && ctx.Err() == nil {
			a.port.agents.cfg.Publish(updates...)
		}
	})
}
