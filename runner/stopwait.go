package runner

import (
	"context"
	"log/slog"
	"time"

	"vmop/runner/config"
	"vmop/runner/launch/cleanup"
	"vmop/runner/status/k8s"
	"vmop/vmstatus"
)

// stopWaitTime is how long AwaitStop waits for a stop request that makes room for another pod. Without a manager
// no request comes.
const stopWaitTime = 30 * time.Second

// AwaitStop waits for a stop request, which ends ctx, after a guest has shut itself down. If a runner in a pod
// simply ended, the kubelet would restart it, and the VM with it, before the manager has decided whether the VM
// should run. With crashStops, AwaitStop also waits after a crash.
//
// AwaitStop waits without limit after a guest was moved to another pod, and with guestShutdownStops. Otherwise it
// waits for half a minute, so that the VM can be started in another pod with its newest definition. It watches
// the configuration in the meantime. It does not wait if no manager receives the runner's reports.
//
// If the runner is killed while it waits and is restarted in the same pod, Run returns the same outcome. If no
// request has come, the VM may start in this pod.
func AwaitStop(ctx context.Context, opts Options, outcome Outcome) {
	if !outcome.awaitsStop(opts) || ctx.Err() != nil {
		return
	}
	w := stopWait{
		file: opts.ConfigFile, reporter: opts.Reporter, log: opts.Log, cause: outcome.Cause,
		stays: outcome.Cause == vmstatus.CauseMoved,
	}
	w.awaitStart(ctx)
	if ctx.Err() == nil && outcome.noted != "" {
		if err := cleanup.Remove(outcome.noted); err != nil {
			opts.Log.Warn("the VM will not be started again in this pod", "err", err)
		}
	}
}

// awaitsStop reports whether a manager, rather than the kubelet, may decide what follows this end of the guest.
func (o Outcome) awaitsStop(opts Options) bool {
	switch {
	case opts.Reporter == nil:
		return false
	case o.Cause.Crash():
		stays, known := staysOff(config.NewSource(opts.ConfigFile, nil), o.Cause)
		return known && stays
	}
	return o.Cause == vmstatus.CauseGuest || o.Cause == vmstatus.CauseReset || o.Cause == vmstatus.CauseMoved
}

// staysOff reports whether a VM stays off after it has ended. known is false if the configuration has errors.
func staysOff(source *config.Source, cause vmstatus.Cause) (stays, known bool) {
	if _, err := source.Reload(); err != nil || source.Config() == nil {
		return false, false
	}
	c := source.Config()
	return cause == vmstatus.CauseGuest && c.GuestShutdownStops || cause.Crash() && c.CrashStops, true
}

// stopWait is a runner that waits for a stop request after its VM has ended.
type stopWait struct {
	file     string
	reporter *k8s.Reporter
	log      *slog.Logger
	cause    vmstatus.Cause // a guest that was reset should start again
	stays    bool           // the VM stays off
}

func (w *stopWait) awaitStart(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.log.Info("the guest has ended; waiting for a stop request", "cause", w.cause)
	source, changed := config.NewSource(w.file, nil), config.Watch(ctx, w.log, w.file)
	over := time.NewTimer(stopWaitTime)
	defer over.Stop()
	told := w.reporter.Done()
	for {
		select {
		case <-ctx.Done():
			return
		case <-told:
			if !w.reporter.Heard() {
				w.log.Info("no manager is reachable; not waiting for a stop request")
				return
			}
			told = nil
		case <-over.C:
			if !w.stays {
				w.log.Info("no stop request has come; exiting")
				return
			}
		case _, ok := <-changed:
			if !ok {
				return
			}
			w.readState(source, over)
		}
	}
}

// readState checks again whether the VM should stay off. It ignores a configuration with errors.
func (w *stopWait) readState(source *config.Source, over *time.Timer) {
	stays, known := staysOff(source, w.cause)
	if !known || stays == w.stays || w.cause == vmstatus.CauseMoved {
		return
	}
	if w.stays = stays; !stays {
		over.Reset(stopWaitTime)
	}
}
