package runner

import (
	"context"
	"sync"
	"time"

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
	// earlier. greeted tells that the agent may have been spoken with before.
	// What is learned is told by tell.
	attend(ctx context.Context, path string, greeted bool, tell func(...status.Update)) error
	// reopened tells that the guest has opened the port again while attend runs;
	// false ends attend, and begins anew.
	reopened() bool
	// gone returns what is true when there is no agent.
	gone() []status.Update
}

// A port is a virtio port of an agent. While the guest has it open, its
// attendant is at it. Its methods don't wait.
type port struct {
	m      *machine
	who    attendant
	path   string // of the socket that is the other end
	device string // the id in QEMU's events

	mu     sync.Mutex
	open   bool
	events int                // that were seen
	leave  context.CancelFunc // ends the attendant's work
	left   chan struct{}      // closed when it has ended
}

// look asks QEMU whether the port is open. An event that comes meanwhile knows
// better.
func (p *port) look(ctx context.Context) {
	p.mu.Lock()
	seen := p.events
	p.mu.Unlock()
	go func() {
		ask, cancel := context.WithTimeout(ctx, replyTime)
		open, err := p.m.portIsOpen(ask, p.path)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				p.m.log.Warn("asking whether an agent listens", "socket", p.path, "err", err)
			}
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.events == seen {
			p.set(ctx, open, true)
		}
	}()
}

// changed takes note of an event: the guest has opened the port, or closed it.
func (p *port) changed(ctx context.Context, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
	p.set(ctx, open, false)
}

// set makes the attendant come or go. QEMU tells of each port once a second at
// most, so that one that is open may be opened again without being closed.
func (p *port) set(ctx context.Context, open, greeted bool) {
	if open && p.open && p.who.reopened() {
		return
	}
	if p.open {
		p.leave()
		p.m.tell(p.who.gone()...)
	}
	if p.open = open; !open {
		return
	}
	before := p.left
	ctx, p.leave = context.WithCancel(ctx)
	p.left = make(chan struct{})
	go p.attend(ctx, before, p.left, greeted)
}

// attend has the attendant at the port until ctx ends. The one before must have
// left: QEMU serves one client at a time.
func (p *port) attend(ctx context.Context, before, left chan struct{}, greeted bool) {
	defer close(left)
	if before != nil {
		<-before
	}
	for pause := firstPause; ctx.Err() == nil && !p.m.stopping.Load(); pause = min(2*pause, longPause) {
		err := p.who.attend(ctx, p.path, greeted, func(updates ...status.Update) { p.tell(ctx, updates...) })
		if p.m.stopping.Load() {
			return // what the guest has said last is left
		}
		greeted = true
		p.tell(ctx, p.who.gone()...)
		p.m.log.Debug("agent", "socket", p.path, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// tell tells what the attendant has learned, unless it is out of date.
func (p *port) tell(ctx context.Context, updates ...status.Update) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil {
		p.m.tell(updates...)
	}
}
