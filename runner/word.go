package runner

import (
	"context"
	"log/slog"
	"time"

	"vmop/runner/config"
	"vmop/runner/status/k8s"
	"vmop/vmstatus"
)

// wordTime is how long the word to end is waited for that makes room for another
// pod. Without a manager no stop request has come; exiting.
const wordTime = 30 * time.Second

// AwaitWord waits, where a guest has shut itself down, for the word to end, which is
// the end of the context. In a pod that runner must not just end: the kubelet would
// start it again, and the VM with it, before anybody has decided whether it shall
// run.
//
// With guestShutdownStops the VM stays off, for as long as it takes; otherwise
// it is waited for half a minute, so that the VM can be started in another pod, by
// its newest definition. What the configuration says meanwhile counts. A runner
// that nobody hears doesn't wait.
//
// Killed meanwhile and started again in the same pod, Run returns the same outcome.
// When the word has been waited for in vain, the VM is free to start there.
func AwaitWord(ctx context.Context, opts Options, outcome Outcome) {
	if !outcome.awaitsWord(opts) || ctx.Err() != nil {
		return
	}
	w := word{
		file: opts.ConfigFile, reporter: opts.Reporter, log: opts.Log,
		reset: outcome.Cause == vmstatus.CauseReset,
	}
	w.await(ctx)
	if ctx.Err() == nil && outcome.noted != "" {
		if err := removeIfThere(outcome.noted); err != nil {
			opts.Log.Warn("the VM will not be started again in this pod", "err", err)
		}
	}
}

// awaitsWord tells whether the guest has shut itself down, and somebody may decide
// what follows.
func (o Outcome) awaitsWord(opts Options) bool {
	return opts.Reporter != nil && (o.Cause == vmstatus.CauseGuest || o.Cause == vmstatus.CauseReset)
}

// word is what a runner waits for whose VM has ended.
type word struct {
	file     string
	reporter *k8s.Reporter
	log      *slog.Logger
	reset    bool // the guest wants to start again
	stays    bool // off
}

func (w *word) await(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.log.Info("the guest has shut itself down; waiting for a stop request")
	source, changed := config.NewSource(w.file, nil), config.Watch(ctx, w.log, w.file)
	over := time.NewTimer(wordTime)
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

// read looks whether the VM is to stay off. A configuration with faults changes
// nothing.
func (w *word) read(source *config.Source, over *time.Timer) {
	if _, err := source.Reload(); err != nil || source.Config() == nil {
		return
	}
	stays := source.Config().GuestShutdownStops && !w.reset
	if stays == w.stays {
		return
	}
	if w.stays = stays; !stays {
		over.Reset(wordTime)
	}
}
