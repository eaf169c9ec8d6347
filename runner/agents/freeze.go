package agents

import (
	"context"
	"errors"
	"time"

	"vmop/runner/guest"
)

// errNoAgent is the error without a connection with the guest agent.
var errNoAgent = errors.New("no guest agent is connected")

// Freeze has the guest agent freeze the guest's file systems, and calls then on the driver's
// goroutine; sent is false if the agent does not know of it.
func (a *Agents) Freeze(limit time.Duration, then func(count int, sent bool, err error)) {
	agent := a.live()
	ctx, cancel := context.WithTimeout(a.ctx, limit)
	a.freezes = cancel
	go func() {
		defer cancel()
		count, err := 0, errNoAgent
		if agent != nil {
			count, err = agent.FreezeFS(ctx)
		}
		sent := agent != nil && !errors.Is(err, guest.ErrUnsent)
		a.cfg.Do(func() { then(count, sent, err) })
	}()
}

// EndFreeze has a freeze that is not answered end with an error.
func (a *Agents) EndFreeze() {
	if a.freezes != nil {
		a.freezes()
	}
}

// Thaw has the guest agent thaw the guest's file systems, and calls then on the driver's
// goroutine.
func (a *Agents) Thaw(limit time.Duration, then func(count int, err error)) {
	agent, leaving, port := a.live(), a.leaving(), a.ports[GuestRole]
	go func() {
		ctx, cancel := context.WithTimeout(a.ctx, limit)
		defer cancel()
		count, err := 0, errNoAgent
		if agent != nil {
			count, err = agent.ThawFS(ctx)
		}
		if leaving && port != nil && (agent == nil || errors.Is(err, guest.ErrClosed)) {
			count, err = thawAnew(ctx, port.path) // the attendant has left for good
		}
		a.cfg.Do(func() { then(count, err) })
	}()
}

// live returns the agent that there is a connection with; nil if there is none.
func (a *Agents) live() *guest.Agent {
	if a.found != nil {
		return a.found
	}
	if p := a.ports[GuestRole]; p != nil && p.last != nil {
		return p.last.live
	}
	return nil
}

// thawAnew thaws by a connection of its own.
func thawAnew(ctx context.Context, path string) (int, error) {
	agent, err := guest.Connect(ctx, path)
	if err != nil {
		return 0, err
	}
	defer agent.Close()
	return agent.ThawFS(ctx)
}
