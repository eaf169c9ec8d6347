package agents

import (
	"context"
	"errors"
	"time"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// How long a guest that boots stays in the state Booting without word of its agent; that of
// one that has run longer before its runner was started.
const (
	bootTime    = 2 * time.Minute
	adoptedTime = 15 * time.Second
)

// AwaitBoot has a guest that boots, and whose agent does not answer, enter the state Running,
// whenever it boots, until ctx is done or the VM has stopped. port reports whether the guest has
// a port for an agent.
func AwaitBoot(ctx context.Context, tracker *status.Tracker, port bool) {
	sub := tracker.Subscribe(status.DefaultPace())
	defer sub.Close()
	var state vmstatus.State
	limited, cancel := context.WithCancel(ctx)
	for {
		s, err := sub.Next(limited)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			_ = tracker.Update(unanswered(port)) // every state accepts it
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
				limited, cancel = context.WithTimeout(ctx, silence(s, time.Now()))
			}
			state = s.State
		}
	}
}

// silence is how long a guest may boot in silence that is found booting.
func silence(s status.Status, now time.Time) time.Duration {
	if s.Reason == vmstatus.ReasonRunnerRestarted && s.Started != nil {
		return max(bootTime-now.Sub(*s.Started), adoptedTime)
	}
	return bootTime
}

func unanswered(port bool) status.Unanswered {
	if !port {
		return "the VM has no port for a guest agent, so it is not known whether the guest has booted"
	}
	return "no guest agent answers, so it is not known whether the guest has booted; install qemu-guest-agent in it to know"
}
