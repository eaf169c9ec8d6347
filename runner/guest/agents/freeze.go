package agents

import (
	"context"
	"errors"
	"time"

	"vmop/runner/guest"
)

// errNoAgent is the error without a connection with the guest agent.
var errNoAgent = errors.New("no guest agent is connected")

// Freeze asks the guest agent to freeze the guest's file systems, and calls then on the driver's goroutine. sent
// is false if the agent has not received the request.
func (a *Agents) Freeze(limit time.Duration, then func(count int, sent bool, err error)) {
	agent := a.liveAgent()
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

// EndFreeze ends an unanswered freeze with an error.
func (a *Agents) EndFreeze() {
	if a.freezes != nil {
		a.freezes()
	}
}

// Thaw asks the guest agent to thaw the guest's file systems, and calls then on the driver's goroutine.
func (a *Agents) Thaw(limit time.Duration, then func(count int, err error)) {
	agent, leaving, port := a.liveAgent(), a.isLeaving(), a.ports[GuestRole]
	go func() {
		ctx, cancel := context.WithTimeout(a.ctx, limit)
		defer cancel()
		count, err := 0, errNoAgent
		if agent != nil {
			count, err = agent.ThawFS(ctx)
		}
		if leaving && port != nil && (agent == nil || errors.Is(err, guest.ErrClosed)) {
			count, err = thawAnew(ctx, port.path) // the attendant has left permanently
		}
		a.cfg.Do(func() { then(count, err) })
	}()
}

// liveAgent returns the connected agent; nil if there is none.
func (a *Agents) liveAgent() *guest.Agent {
	if a.found != nil {
		return a.found
	}
	if p := a.ports[GuestRole]; p != nil && p.last != nil {
		return p.last.live
	}
	return nil
}

// thawAnew thaws over a separate connection.
func thawAnew(ctx context.Context, path string) (int, error) {
	agent, err := guest.Connect(ctx, path)
	if err != nil {
		return 0, err
	}
	defer agent.Close()
	return agent.ThawFS(ctx)
}
