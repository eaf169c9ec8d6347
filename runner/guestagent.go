package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"vmop/qmp"
	"vmop/runner/guest"
	"vmop/runner/status"
)

// askTime is what the guest agent has for one round of questions.
const askTime = 10 * time.Second

// guestAgent asks QEMU's guest agent what runs in the guest.
type guestAgent struct{ m *machine }

// attend implements attendant.
func (g *guestAgent) attend(ctx context.Context, path string, _ bool, tell func(...status.Update)) error {
	ctx, agent, err := g.m.agent.connect(ctx, path)
	if err != nil {
		return err
	}
	defer g.m.agent.release(agent)
	var r rounds
	for {
		answered, err := g.ask(ctx, agent, r.answered > 0, tell)
		if errors.Is(err, guest.ErrClosed) {
			return err
		}
		if err != nil {
			g.m.log.Debug("the guest agent does not answer", "err", err)
		}
		select {
		case <-time.After(r.next(answered)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask asks for the interfaces, and in the beginning for the system. It returns
// whether the agent has answered.
func (g *guestAgent) ask(ctx context.Context, agent *guest.Agent, known bool, tell func(...status.Update)) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if !known {
		info, err := agent.OSInfo(ctx)
		news := []status.Update{status.Answered{}}
		switch {
		case err == nil:
			news = append(news, status.GuestOS{Info: (*status.OSInfo)(&info)})
		case !refused(err):
			return false, err
		}
		before := g.m.tracker.Status().State
		tell(news...)
		if before == status.Booting {
			g.m.log.Info("booted", "state", "Booted", "system", info.PrettyName)
		}
	}
	interfaces, err := agent.Interfaces(ctx)
	if err != nil {
		return refused(err), err // as it does while its file systems are frozen
	}
	tell(interfacesOf(interfaces))
	return true, nil
}

// refused says that the agent has answered, though not with what was asked for.
func refused(err error) bool {
	var refusal *qmp.Error
	return errors.As(err, &refusal)
}

func interfacesOf(said []guest.Interface) status.Interfaces {
	var all status.Interfaces
	for _, s := range said {
		i := status.Interface{Name: s.Name, MAC: s.MAC}
		for _, a := range s.Addresses {
			i.Addresses = append(i.Addresses, a.String())
		}
		all = append(all, i)
	}
	return all
}

// reopened implements attendant.
func (*guestAgent) reopened() bool { return false }

// gone implements attendant.
func (*guestAgent) gone() []status.Update {
	return []status.Update{status.GuestOS{}, status.Interfaces(nil)}
}

// rounds says when the guest is asked again: soon after it has booted, when its
// network comes up, and then once a minute.
type rounds struct {
	answered int
	missed   int // in a row
}

// next returns the pause after a round.
func (r *rounds) next(answered bool) time.Duration {
	if !answered {
		r.missed++
		return min(firstPause<<min(r.missed-1, 20), longPause)
	}
	r.answered++
	r.missed = 0
	switch r.answered {
	case 1:
		return 5 * time.Second
	case 2:
		return 15 * time.Second
	}
	return time.Minute
}

// agentHolder has the one connection to the guest agent: QEMU serves one client
// at a time. Who looks after the running guest has it until it is taken for the
// guest's end.
type agentHolder struct {
	mu    sync.Mutex
	agent *guest.Agent
	taken bool
	leave context.CancelCauseFunc // ends what goes on with it
}

var errTaken = errors.New("the guest is being asked to shut down")

// connect connects to the agent, unless it was taken. The context it returns
// ends when it is.
func (h *agentHolder) connect(ctx context.Context, path string) (context.Context, *guest.Agent, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taken {
		return ctx, nil, errTaken
	}
	agent, err := guest.Connect(ctx, path)
	if err != nil {
		return ctx, nil, err
	}
	h.agent = agent
	ctx, h.leave = context.WithCancelCause(ctx)
	return ctx, agent, nil
}

// release closes the connection, unless it was taken.
func (h *agentHolder) release(agent *guest.Agent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.agent == agent {
		h.leave(nil)
		h.agent = nil
		_ = agent.Close() // the socket may be closed already
	}
}

// take returns the agent, nil if nobody is connected with it, and keeps others
// from connecting.
func (h *agentHolder) take() *guest.Agent {
	h.mu.Lock()
	defer h.mu.Unlock()
	agent := h.agent
	if agent != nil {
		h.leave(errTaken)
	}
	h.agent, h.taken = nil, true
	return agent
}
