package agents

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"vmop/qmp"
	"vmop/runner/guest"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// roundTime is the guest agent's time for one round of questions.
const roundTime = 10 * time.Second

// guestAgent asks QEMU's guest agent what is running in the guest.
type guestAgent struct {
	log     *slog.Logger
	state   func() vmstatus.State
	reached bool // the guest has an address
	told    bool // it has reported its system; an agent with frozen file systems doesn't
}

// attend implements attendant.
func (g *guestAgent) attend(ctx context.Context, a *attendance) error {
	agent, err := guest.Connect(ctx, a.path)
	if err != nil {
		return err
	}
	a.port.agents.cfg.Do(func() { a.live = agent })
	defer func() {
		if errors.Is(context.Cause(ctx), errTaken) {
			a.agent = agent
			return
		}
		_ = agent.Close() // the socket may be closed already
	}()
	var r rounds
	g.told = false
	for {
		answered, err := g.query(ctx, agent, r.answered > 0, a)
		if errors.Is(err, guest.ErrClosed) {
			return err
		}
		if err != nil {
			g.log.Debug("the guest agent does not answer", "err", err)
		}
		select {
		case <-time.After(r.nextPause(answered, g.reached)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// query asks for the interfaces, and at first for the system. It returns whether the agent has answered.
func (g *guestAgent) query(ctx context.Context, agent *guest.Agent, known bool,
	a *attendance,
) (answered bool, err error) {
	limited, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	if !known || !g.told {
		info, err := agent.OSInfo(limited)
		var news []status.Update
		if !known {
			news = append(news, status.Answered{})
		}
		switch {
		case err == nil:
			g.told = true
			news = append(news, status.GuestOS{Info: &info})
		case !isRefusal(err):
			return false, err
		}
		before := g.state()
		a.publishUpdates(ctx, news...)
		if before.Active() && before != vmstatus.StateBooted {
			g.log.Info("booted", "state", "Booted", "system", info.PrettyName)
		}
	}
	interfaces, err := agent.Interfaces(limited)
	if err != nil {
		return isRefusal(err), err // the agent refuses while its file systems are frozen
	}
	a.publishUpdates(ctx, interfacesOf(interfaces))
	g.reached = hasAddress(interfaces)
	return true, nil
}

// isRefusal reports whether the agent has answered, but without the requested data.
func isRefusal(err error) bool {
	var refusal *qmp.Error
	return errors.As(err, &refusal)
}

// hasAddress reports whether interfaces have an address with a scope beyond their link.
func hasAddress(said []guest.Interface) bool {
	return slices.ContainsFunc(said, func(i guest.Interface) bool {
		return slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr().IsGlobalUnicast() })
	})
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

// rounds decides when the guest is asked again: soon after it has booted, when its network comes up, and later
// once a minute. While the guest has no address, it is asked more often for some minutes.
type rounds struct {
	answered int
	missed   int // in a row
}

// mostEager is the number of rounds at short intervals.
const mostEager = 20

// nextPause returns the pause after a round. reached reports whether the guest has an address.
func (r *rounds) nextPause(answered, reached bool) time.Duration {
	if !answered {
		r.missed++
		return min(firstPause<<min(r.missed-1, 20), longPause)
	}
	r.answered++
	r.missed = 0
	switch {
	case r.answered == 1:
		return 5 * time.Second
	case r.answered == 2, !reached && r.answered < mostEager:
		return 15 * time.Second
	}
	return time.Minute
}
