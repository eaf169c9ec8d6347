package agents

import (
	"context"
	"log/slog"
	"net"
	"time"

	"vmop/runner/guest"
	"vmop/runner/ratelimit"
	"vmop/runner/status"
)

// loginAgent speaks with the agent that logs a user in.
type loginAgent struct {
	log   *slog.Logger
	agent *guest.LoginAgent
	limit ratelimit.Limit // of what a guest can make the log say
}

func newLoginAgent(log *slog.Logger) *loginAgent {
	return &loginAgent{log: log, agent: guest.NewLoginAgent(), limit: ratelimit.Limit{Every: time.Minute, Burst: 30}}
}

// attend implements attendant.
func (l *loginAgent) attend(ctx context.Context, a *attendance) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", a.path)
	if err != nil {
		return err
	}
	return l.agent.Converse(ctx, conn, a.greeted, func(s guest.LoginState) {
		a.publish(ctx, status.VmopAgent(s.Connected), status.LoggedIn(s.User), status.LoginFailure(s.Failure))
		l.record(ctx, s)
	})
}

// record logs what has become of a user's log-in.
func (l *loginAgent) record(ctx context.Context, s guest.LoginState) {
	level := slog.LevelInfo
	if s.Failure != "" {
		level = slog.LevelWarn
	}
	if _, ok := l.limit.Allow(time.Now()); !ok {
		level = slog.LevelDebug
	}
	l.log.Log(ctx, level, "log-in agent", "connected", s.Connected, "user", s.User, "err", s.Failure)
}

// reopened implements attendant. The connection stays: what the new agent has
// said already is on it.
func (l *loginAgent) reopened() bool {
	l.agent.Reopened()
	return true
}

// gone implements attendant.
func (*loginAgent) gone() []status.Update { return []status.Update{status.VmopAgent(false)} }
