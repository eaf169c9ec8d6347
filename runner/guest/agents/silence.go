package agents

import (
	"context"
	"errors"
	"time"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// How long a booting guest stays in the state Booting without an answer from its agent. adoptedTime is the
// minimum for a guest that was already running when its runner was started.
const (
	bootTime    = 2 * time.Minute
	adoptedTime = 15 * time.Second
)

// AwaitBoot moves a booting guest to the state Running if its agent does not answer in time. It does so at each
// boot, until ctx is done or the VM has stopped. port reports whether the guest has a port for an agent.
func AwaitBoot(ctx context.Context, tracker *status.Tracker, port bool) {
	sub := tracker.Subscribe(status.DefaultPace())
	defer sub.Close()
	var state vmstatus.State
	limited, cancel := context.WithCancel(ctx)
	for {
		s, err := sub.Next(limited)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			_ = tracker.Update(unansweredPort(port)) // every state accepts it
			cancel()
			limited, cancel = context.WithCancel(ctx)
		case err != nil:
			cancel()
			return
		case s.State != state:
			cancel()
			limited, cancel = context.WithCancel(ctx)
			if s.State == vmstatus.StateBooting {
				cancel()
				limited, cancel = context.WithTimeout(ctx, silentBootTime(s, time.Now()))
			}
			state = s.State
		}
	}
}

// silentBootTime returns how long the guest may continue to boot without an answer.
func silentBootTime(s status.Status, now time.Time) time.Duration {
	if s.Reason == vmstatus.ReasonRunnerRestarted && s.Started != nil {
		return max(bootTime-now.Sub(*s.Started), adoptedTime)
	}
	return bootTime
}

func unansweredPort(port bool) status.Unanswered {
	if !port {
		return "the VM has no port for a guest agent, so it is not known whether the guest has booted"
	}
	return "no guest agent answers, so it is not known whether the guest has booted; install qemu-guest-agent in it to know"
}
