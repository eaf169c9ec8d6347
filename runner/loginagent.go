package runner

import (
	"context"
	"log/slog"
	"net"
	"time"

	"vmop/runner/guest"
	"vmop/runner/status"
)

// loginAgent speaks with the agent that logs a user in.
type loginAgent struct {
	m     *machine
	agent *guest.LoginAgent
	// What a guest can make the log say is bounded.
	lines trickle
}

func newLoginAgent(m *machine) *loginAgent {
	return &loginAgent{m: m, agent: guest.NewLoginAgent(), lines: trickle{every: time.Minute, burst: 30}}
}

// attend implements attendant.
func (l *loginAgent) attend(ctx context.Context, path string, greeted bool, tell func(...status.Update)) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return l.agent.Converse(ctx, conn, greeted, func(s guest.LoginState) {
		tell(status.VmopAgent(s.Connected), status.LoggedIn(s.User), status.LoginFailure(s.Failure))
		l.log(ctx, s)
	})
}

// log tells people what has become of a user's log-in.
func (l *loginAgent) log(ctx context.Context, s guest.LoginState) {
	level := slog.LevelInfo
	if s.Failure != "" {
		level = slog.LevelWarn
	}
	if _, ok := l.lines.lets(time.Now()); !ok {
		level = slog.LevelDebug
	}
	l.m.log.Log(ctx, level, "log-in agent", "connected", s.Connected, "user", s.User, "err", s.Failure)
}

// reopened implements attendant. The connection stays: what the new agent has
// said already is on it.
func (l *loginAgent) reopened() bool {
	l.agent.Reopened()
	return true
}

// gone implements attendant.
func (*loginAgent) gone() []status.Update { return []status.Update{status.VmopAgent(false)} }
