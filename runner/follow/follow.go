package follow

import (
	"context"
	"log/slog"
	"time"

	"vmop/runner/config"
	"vmop/runner/disks"
	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/runner/reconcile"
	"vmop/runner/record"
	"vmop/runner/service"
	"vmop/runner/status"
)

// Config is whose configuration is followed, and who is to know what changes.
type Config struct {
	// Running is the VM as it was started, and Wanted as it was wanted last.
	Running, Wanted *prepare.VM
	// Adopted says that the file may be another than what Wanted was read from.
	Adopted bool
	// Options are those of the VM's preparation. PolicyFault says why there is a policy,
	// but it is not known.
	Options     prepare.Options
	PolicyFault error
	// Reread makes the configuration be read where no change is noticed. It may be nil.
	Reread <-chan struct{}

	Driver  Driver
	Sizes   *disks.Sizes
	Service *service.Service // that wants to know when a reload is done
	Log     *slog.Logger
}

// Driver drives the machine.
type Driver interface {
	Configured(machine.Reading)
	AwaitRestart(status.Pending, error)
}

// Run follows the configuration until ctx is done.
func Run(ctx context.Context, cfg Config) {
	r := &reader{
		Config: cfg, source: config.NewSource(cfg.Running.File, cfg.Wanted.Config), wanted: cfg.Wanted,
		types: newTypeWatch(cfg.Log),
	}
	r.run(ctx)
}

// Wish is what the configuration wants of a running machine.
func Wish(vm, running *prepare.VM) machine.Wish {
	w := machine.Wish{
		Desired: vm.Desired(running), Powerdown: time.Duration(*vm.Spec.PowerdownTimeout) * time.Second,
		Cards: vm.Cards(running),
	}
	if vm.Spec.Display != nil {
		w.User = vm.Spec.Display.LoggedInUser
	}
	return w
}

// reader follows the configuration of a VM that runs: when the file changes, or
// the modules of the VM's type, both are read and evaluated, and the driver gets
// what came of it. That takes time, which depends on what others have written, so
// it is done by a goroutine of its own, one at a time; what changes meanwhile
// makes it stop and begin again.
type reader struct {
	Config
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
	asked   bool // because that was asked for: a fault is reported again
	types   bool // the modules of the VM's type have changed
	pending bool // find out what awaits a restart
}

func (t task) none() bool { return t == task{} }

func (t task) and(other task) task {
	return task{
		t.reload || other.reload, t.asked || other.asked, t.types || other.types, t.pending || other.pending,
	}
}

// run follows the configuration until ctx is done.
func (r *reader) run(ctx context.Context) {
	changed := config.Watch(ctx, r.Log, r.Running.File, r.Running.FilesOfData()...)
	var todo task
	if r.Adopted {
		todo = task{reload: true, pending: true} // the file may be another now
	}
	r.types.watch(ctx, r.Options.VMTypes, r.wanted.Config.VMType)
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
			r.types.watch(ctx, r.Options.VMTypes, r.wanted.Config.VMType)
			if reloading && !todo.reload {
				reloading = false
				r.Service.Reloaded()
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
		case <-r.Reread:
			r.Log.Info("reading the configuration again, as requested")
			reloading = true
			r.Service.Reloading()
			todo.reload, todo.asked = true, true
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
	r.Log.Debug("evaluation started")
	defer func() {
		if ctx.Err() != nil {
			r.Log.Debug("evaluation given up")
		} else {
			r.Log.Debug("evaluation finished")
		}
	}()
	types := r.evaluation(ctx)
	defer types.close()
	if do.reload || do.types && r.fault != "" {
		taken := r.read(ctx, types, do.asked)
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
		r.Driver.AwaitRestart(list, err)
	}
	return task{}
}

// read reads the configuration and what is beside it, and reports whether there is
// another in force. What has faults changes nothing: the configuration before
// stays in force. When it was asked for, a fault that was reported before is reported again.
func (r *reader) read(ctx context.Context, types *evaluation, asked bool) (taken bool) {
	defer func() { r.Sizes.Measure(r.wanted.Spec.Drives) }()
	changed, err := r.source.Reload()
	r.unread = r.unread || changed
	var next *prepare.VM
	if err == nil {
		next, err = r.Running.Renewed(r.source.Config())
	}
	if err == nil {
		err = types.check(ctx, next)
	}
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		if text := err.Error(); text != r.fault || asked {
			r.fault = text
			r.Driver.Configured(machine.Reading{Err: text, Generation: r.source.Generation()})
		}
		return false
	}
	if !r.unread && r.fault == "" && samePassword(next.Password, r.wanted.Password) && sameData(next, r.wanted) {
		return false
	}
	r.unread, r.fault, r.wanted = false, "", next
	if err := record.WriteConfig(r.Running.RuntimeDir, r.source.Config()); err != nil {
		r.Log.Warn("the configuration in force is not saved", "err", err)
	}
	if err := prepare.EditOrigins(r.Running.DataDir, r.Running.Spec.Drives, func(o prepare.Origins) {
		o.Add(next.Spec.Drives, prepare.Found)
	}); err != nil {
		r.Log.Warn("the origin of new disks is not recorded", "err", err)
	}
	r.Driver.Configured(machine.Reading{
		Wish: Wish(next, r.Running), Generation: r.source.Generation(), Resource: r.source.Config().Resource,
	})
	return true
}

// sameData reports whether a guest would configure itself from the same data.
func sameData(a, b *prepare.VM) bool {
	return a.CloudInit() == b.CloudInit() && a.Facts.Sysprep == b.Facts.Sysprep
}

func samePassword(a, b *reconcile.Password) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Text.Equal(b.Text) && a.Expiry == b.Expiry
}
