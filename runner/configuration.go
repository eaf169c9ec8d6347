package runner

import (
	"context"

	"vmop/runner/config"
	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/runner/reconcile"
	"vmop/runner/record"
)

// reader follows the configuration of a VM that runs: when the file changes, or
// the modules of the VM's type, both are read and evaluated, and the driver gets
// what came of it. That takes time, which depends on what others have written, so
// it is done by a goroutine of its own, one at a time; what changes meanwhile
// makes it stop and begin again.
type reader struct {
	m     *run
	types *typeWatch

	// Whoever evaluates has the rest.
	source *config.Source
	wanted *prepare.VM // what the configuration said last that could be used
	unread bool        // the source has something that is not in force
	fault  string      // why it is not
}

// task is what a reader has to do.
type task struct {
	reload  bool // the configuration
	types   bool // the modules of the VM's type have changed
	pending bool // find out what awaits a restart
}

func (t task) none() bool { return t == task{} }

func (t task) and(other task) task {
	return task{t.reload || other.reload, t.types || other.types, t.pending || other.pending}
}

func newReader(m *run) *reader {
	return &reader{
		m: m, source: config.NewSource(m.vm.File, m.wanted.Config), wanted: m.wanted, types: newTypeWatch(m.log),
	}
}

// run follows the configuration until ctx is done.
func (r *reader) run(ctx context.Context) {
	changed := config.Watch(ctx, r.m.log, r.m.vm.File)
	var todo task
	if r.m.adopted {
		todo = task{reload: true, pending: true} // the file may be another now
	}
	r.types.watch(ctx, r.m.opts.VMTypes, r.wanted.Config.VMType)
	var left chan task // gets what is left to be done; nil: nothing is being evaluated
	stop := func() {}
	reloading := false // the service manager waits for it
	for {
		if left == nil && !todo.none() {
			var working context.Context
			working, stop = context.WithCancel(ctx)
			left = make(chan task, 1)
			go func(do task, left chan<- task) { left <- r.work(working, do) }(todo, left)
			todo = task{}
		}
		select {
		case rest := <-left:
			stop()
			left = nil
			todo = todo.and(rest)
			r.types.watch(ctx, r.m.opts.VMTypes, r.wanted.Config.VMType)
			if reloading && !todo.reload {
				reloading = false
				r.m.service.Reloaded()
			}
			continue
		case _, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			todo.reload = true
		case <-r.types.changed:
			todo.types = true
		case <-r.m.opts.Reread:
			r.m.log.Info("reading the configuration again, as requested")
			reloading = true
			r.m.service.Reloading()
			todo.reload = true
		case <-ctx.Done():
			stop()
			if left != nil {
				<-left
			}
			return
		}
		stop() // what is being evaluated is out of date
	}
}

// work does a task, and returns what is left of it when ctx has ended before.
func (r *reader) work(ctx context.Context, do task) (rest task) {
	types := r.m.evaluation(ctx)
	defer types.close()
	if do.reload || do.types && r.fault != "" {
		taken := r.read(ctx, types)
		if ctx.Err() != nil {
			return do.and(task{reload: true, pending: taken})
		}
		do.pending = do.pending || taken
	}
	if do.pending || do.types {
		list, err := types.pendingChanges(ctx, r.wanted)
		if ctx.Err() != nil {
			return task{pending: true}
		}
		r.m.driver.AwaitRestart(list, err)
	}
	return task{}
}

// read reads the configuration and what is beside it, and reports whether there is
// another in force. What has faults changes nothing: the configuration before
// stays in force.
func (r *reader) read(ctx context.Context, types *evaluation) (taken bool) {
	defer func() { r.m.sizes.Measure(r.wanted.Spec.Drives) }()
	changed, err := r.source.Reload()
	r.unread = r.unread || changed
	var next *prepare.VM
	if err == nil {
		next, err = r.m.vm.Renewed(r.source.Config())
	}
	if err == nil {
		err = types.check(ctx, next)
	}
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		if text := err.Error(); text != r.fault {
			r.fault = text
			r.m.driver.Configured(machine.Reading{Err: text, Generation: r.source.Generation()})
		}
		return false
	}
	if !r.unread && r.fault == "" && samePassword(next.Password, r.wanted.Password) {
		return false
	}
	r.unread, r.fault, r.wanted = false, "", next
	if err := record.WriteConfig(r.m.vm.RuntimeDir, r.source.Config()); err != nil {
		r.m.log.Warn("the configuration in force is not saved", "err", err)
	}
	r.m.driver.Configured(machine.Reading{
		Wish: wishOf(next, r.m.vm), Generation: r.source.Generation(), Resource: r.source.Config().Resource,
	})
	return true
}

func samePassword(a, b *reconcile.Password) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Text.Equal(b.Text) && a.Expiry == b.Expiry
}
