// Package agents speaks with the agents in a guest: QEMU's own, which says what
// runs there and can shut it down, and the one that logs users in.
//
// Each has a virtio port with a socket at its other end. Which ports the guest has
// open, the driver of the VM knows (package machine decides, package drive calls
// SetPort); while one is open, a goroutine of this package is at its socket, one
// at a time, since QEMU serves one client. What it learns it publishes on the
// driver's goroutine, unless the port was closed meanwhile.
package agents

import (
	"context"
	"log/slog"
	"time"

	"vmop/runner/guest"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// The roles of the agents' sockets in plans.
const (
	GuestRole = "guestAgent"
	LogInRole = "vmopAgent"
)

// Roles returns all of them.
func Roles() []string { return []string{GuestRole, LogInRole} }

// Config is what Agents need.
type Config struct {
	// Paths are the sockets of the agents that the machine has, by their roles.
	Paths map[string]string
	Log   *slog.Logger
	// Do calls a function on the driver's goroutine, and returns when it has returned,
	// or when the driver has ended and it is not called.
	Do func(func())
	// Publish updates the status. It is called on the driver's goroutine.
	Publish func(...status.Update)
	// State is the VM's.
	State func() vmstatus.State
}

// Agents are those of one VM. The driver's goroutine calls the methods, which
// don't wait.
type Agents struct {
	cfg     Config
	ctx     context.Context    // of all conversations with agents
	end     context.CancelFunc // ends it
	staying context.Context    // done when agents that fail are not tried again
	leave   context.CancelFunc
	ports   map[string]*port
	logIn   *loginAgent
	found   *guest.Agent       // for the guest's shutdown
	freezes context.CancelFunc // ends the freeze that is not answered; nil: there was none
}

// New returns the agents of a VM. They must be closed.
func New(ctx context.Context, cfg Config) *Agents {
	a := &Agents{cfg: cfg, ports: map[string]*port{}, logIn: newLoginAgent(cfg.Log)}
	a.ctx, a.end = context.WithCancel(ctx)
	a.staying, a.leave = context.WithCancel(a.ctx)
	for role, who := range map[string]attendant{
		GuestRole: &guestAgent{log: cfg.Log, state: cfg.State}, LogInRole: a.logIn,
	} {
		if path := cfg.Paths[role]; path != "" {
			a.ports[role] = &port{agents: a, who: who, path: path}
		}
	}
	return a
}

// SetPort makes an attendant come to the port of a role, or leave it. greeted
// says that the agent may have been spoken with before.
func (a *Agents) SetPort(role string, open, greeted bool) {
	if p := a.ports[role]; p != nil {
		p.set(open, greeted)
	}
}

// LogIn says which user is to be logged in; "" is none.
func (a *Agents) LogIn(user string) { a.logIn.agent.Want(user) }

// Leave says that the guest is being stopped: what the agents have said last
// stays, and those that fail are not tried again.
func (a *Agents) Leave() { a.leave() }

// leaving reports whether Leave was called.
func (a *Agents) leaving() bool { return a.staying.Err() != nil }

// Find connects with the guest agent, in place of the attendant, and calls then
// on the driver's goroutine: found says that it answers.
func (a *Agents) Find(limit time.Duration, then func(found bool, err error)) {
	p := a.ports[GuestRole]
	if p == nil {
		then(false, nil)
		return
	}
	before := p.claim()
	go func() {
		ctx, cancel := context.WithTimeout(a.ctx, limit)
		defer cancel()
		agent, err := connect(ctx, p.path, before)
		a.cfg.Do(func() {
			a.found = agent
			then(agent != nil, err)
		})
	}()
}

// connect returns an agent that answers: the one that an attendant has handed over,
// or a new connection.
func connect(ctx context.Context, path string, before *attendance) (*guest.Agent, error) {
	var agent *guest.Agent
	if before != nil {
		select {
		case <-before.left:
			agent = before.agent
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if agent == nil {
		var err error
		if agent, err = guest.Connect(ctx, path); err != nil {
			return nil, err
		}
	}
	if err := agent.Synchronise(ctx); err != nil {
		_ = agent.Close() // it is of no use
		return nil, err
	}
	return agent, nil
}

// ShutDown asks the agent that was found to shut the guest down, and calls then
// on the driver's goroutine.
func (a *Agents) ShutDown(limit time.Duration, then func(error)) {
	agent := a.found
	go func() {
		ctx, cancel := context.WithTimeout(a.ctx, limit)
		defer cancel()
		err := agent.Shutdown(ctx, guest.PowerDown)
		a.cfg.Do(func() { then(err) })
	}()
}

// Close ends all conversations with agents.
func (a *Agents) Close() {
	a.end()
	if a.found != nil {
		_ = a.found.Close() // the socket may be closed already
	}
}
