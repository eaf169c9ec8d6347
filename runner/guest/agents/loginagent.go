package agents

import (
	"context"
	"log/slog"
	"net"
	"time"

	"vmop/internal/ratelimit"
	"vmop/runner/guest"
	"vmop/runner/status"
)

// loginAgent communicates with the agent that logs a user in.
type loginAgent struct {
	log   *slog.Logger
	agent *guest.LoginAgent
	limit ratelimit.Limit // limits the log messages that a guest can cause
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
		a.publishUpdates(ctx, status.VmopAgent(s.Connected), status.LoggedIn(s.User), status.LoginFailure(s.Failure))
		l.logState(ctx, s)
	})
}

// logState logs the result of a user's log-in.
func (l *loginAgent) logState(ctx context.Context, s guest.LoginState) {
	level := slog.LevelInfo
	if s.Failure != "" {
		level = slog.LevelWarn
	}
	if _, ok := l.limit.Allow(time.Now()); !ok {
		level = slog.LevelDebug
	}
	l.log.Log(ctx, level, "log-in agent", "connected", s.Connected, "user", s.User, "err", s.Failure)
}

// reopened implements attendant. The connection stays, because it already contains messages of the new agent.
func (l *loginAgent) reopened() bool {
	l.agent.Reopened()
	return true
}

// gone implements attendant.
func (*loginAgent) gone() []status.Update { return []status.Update{status.VmopAgent(false)} }
