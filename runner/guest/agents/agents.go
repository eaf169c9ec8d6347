// Package agents communicates with the agents in a guest: QEMU's guest agent, which reports what is running there
// and can shut the guest down, and the agent that logs users in.
//
// Each agent has a virtio port with a socket at its other end. The driver of the VM knows which ports the guest
// has open (package machine decides, package drive calls SetPort). While a port is open, a goroutine of this
// package is connected to its socket. There is one goroutine at a time, because QEMU serves one client. It
// publishes what it learns on the driver's goroutine, unless the port has been closed.
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
	logInRole = "vmopAgent"
)

// Roles returns all roles.
func Roles() []string { return []string{GuestRole, logInRole} }

// Config is the configuration of Agents.
type Config struct {
	// Paths are the sockets of the agents that the machine has, by their roles.
	Paths map[string]string
	Log   *slog.Logger
	// Do calls a function on the driver's goroutine, and returns when the function has returned. If the driver
	// has ended, it returns without calling the function.
	Do func(func())
	// Publish updates the status. It is called on the driver's goroutine.
	Publish func(...status.Update)
	// State returns the VM's state.
	State func() vmstatus.State
}

// Agents are the agents of one VM. The driver's goroutine calls the methods, which don't wait.
type Agents struct {
	cfg     Config
	ctx     context.Context    // of all conversations with agents
	end     context.CancelFunc // ends it
	staying context.Context    // done when failing agents are not tried again
	leave   context.CancelFunc
	ports   map[string]*port
	logIn   *loginAgent
	found   *guest.Agent       // for the guest's shutdown
	freezes context.CancelFunc // ends an unanswered freeze; nil if there is none
}

// New returns the agents of a VM. They must be closed.
func New(ctx context.Context, cfg Config) *Agents {
	a := &Agents{cfg: cfg, ports: map[string]*port{}, logIn: newLoginAgent(cfg.Log)}
	a.ctx, a.end = context.WithCancel(ctx)
	a.staying, a.leave = context.WithCancel(a.ctx)
	for role, who := range map[string]attendant{
		GuestRole: &guestAgent{log: cfg.Log, state: cfg.State}, logInRole: a.logIn,
	} {
		if path := cfg.Paths[role]; path != "" {
			a.ports[role] = &port{agents: a, who: who, path: path}
		}
	}
	return a
}

// SetPort makes an attendant connect to the port of a role, or leave it. greeted means that an earlier runner may
// already have communicated with the agent.
func (a *Agents) SetPort(role string, open, greeted bool) {
	if p := a.ports[role]; p != nil {
		p.setOpen(open, greeted)
	}
}

// LogIn sets the user to log in; "" means no user.
func (a *Agents) LogIn(user string) { a.logIn.agent.Want(user) }

// Leave announces that the guest is being stopped. The agents' last reports are kept, and failing agents are not
// tried again.
func (a *Agents) Leave() { a.leave() }

// isLeaving reports whether Leave was called.
func (a *Agents) isLeaving() bool { return a.staying.Err() != nil }

// Find connects with the guest agent instead of the attendant, and calls then on the driver's goroutine. found
// reports whether the agent answers.
func (a *Agents) Find(limit time.Duration, then func(found bool, err error)) {
	p := a.ports[GuestRole]
	if p == nil {
		then(false, nil)
		return
	}
	before := p.claimAttendance()
	go func() {
		ctx, cancel := context.WithTimeout(a.ctx, limit)
		defer cancel()
		agent, err := connectAgent(ctx, p.path, before)
		a.cfg.Do(func() {
			a.found = agent
			then(agent != nil, err)
		})
	}()
}

// connectAgent returns an agent that answers: the agent that an attendant has handed over, or a new connection.
func connectAgent(ctx context.Context, path string, before *attendance) (*guest.Agent, error) {
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
		_ = agent.Close() // it can't be used
		return nil, err
	}
	return agent, nil
}

// ShutDown asks the agent from Find to shut the guest down, and calls then on the driver's goroutine.
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
