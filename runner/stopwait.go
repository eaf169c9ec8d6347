package runner

import (
	"context"
	"log/slog"
	"time"

	"vmop/runner/cleanup"
	"vmop/runner/config"
	"vmop/runner/status/k8s"
	"vmop/vmstatus"
)

// stopWaitTime is how long a stop request is waited for that makes room for another
// pod. Without a manager none comes.
const stopWaitTime = 30 * time.Second

// AwaitStop waits, where a guest has shut itself down, for a stop request, which is
// the end of the context. In a pod that runner must not just end: the kubelet would
// start it again, and the VM with it, before the manager has decided whether the VM
// is to run. It waits after a crash as well where crashStops is set.
//
// A guest that was moved to another pod isn't started here again, and with
// guestShutdownStops the VM stays off, for as long as it takes; otherwise
// AwaitStop waits for half a minute, so that the VM can be started in another pod, by
// its newest definition. The configuration is followed meanwhile. A runner whose
// reports no manager hears doesn't wait.
//
// When the runner is killed meanwhile and started again in the same pod, Run returns
// the same outcome. When no request has come, the VM is free to start there.
func AwaitStop(ctx context.Context, opts Options, outcome Outcome) {
	if !outcome.awaitsStop(opts) || ctx.Err() != nil {
		return
	}
	w := stopWait{
		file: opts.ConfigFile, reporter: opts.Reporter, log: opts.Log, cause: outcome.Cause,
		stays: outcome.Cause == vmstatus.CauseMoved,
	}
	w.await(ctx)
	if ctx.Err() == nil && outcome.noted != "" {
		if err := cleanup.Remove(outcome.noted); err != nil {
			opts.Log.Warn("the VM will not be started again in this pod", "err", err)
		}
	}
}

// awaitsStop reports whether a manager may decide what follows this end of the guest, rather
// than the kubelet.
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

// staysOff returns whether a VM stays off that has ended; a configuration with faults doesn't
// tell.
func staysOff(source *config.Source, cause vmstatus.Cause) (stays, known bool) {
	if _, err := source.Reload(); err != nil || source.Config() == nil {
		return false, false
	}
	c := source.Config()
	return cause == vmstatus.CauseGuest && c.GuestShutdownStops || cause.Crash() && c.CrashStops, true
}

// stopWait is a runner that waits for a stop request, because its VM has ended.
type stopWait struct {
	file     string
	reporter *k8s.Reporter
	log      *slog.Logger
	cause    vmstatus.Cause // a guest that was reset wants to start again
	stays    bool           // off
}

func (w *stopWait) await(ctx context.Context) {
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
			w.read(source, over)
		}
	}
}

// read checks whether the VM is to stay off. A configuration with faults changes
// nothing.
func (w *stopWait) read(source *config.Source, over *time.Timer) {
	stays, known := staysOff(source, w.cause)
	if !known || stays == w.stays || w.cause == vmstatus.CauseMoved {
		return
	}
	if w.stays = stays; !stays {
		over.Reset(stopWaitTime)
	}
}
