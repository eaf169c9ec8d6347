package follow

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/disks"
	"vmop/runner/machine"
	"vmop/runner/machine/reconcile"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/runner/status/service"
)

// Config contains the VM to follow, and the receivers of changes.
type Config struct {
	// Running is the VM as it was started, Wanted the last desired VM.
	Running, Wanted *prepare.VM
	// Adopted means that the file may differ from the file that Wanted was read from.
	Adopted bool
	// Options are the options of the VM's preparation. PolicyFault is the error if a policy exists but can't be
	// read.
	Options     prepare.Options
	PolicyFault error
	// Addresses finds the guest's addresses.
	Addresses prepare.Addresses
	// Reread triggers a reading of the configuration when no change is noticed. It may be nil.
	Reread <-chan struct{}

	Driver  Driver
	Sizes   *disks.Sizes
	Service *service.Service // is informed about the end of a reload
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
	r.runReader(ctx)
}

// Wish returns the configuration's desired state of a running machine.
func Wish(vm, running *prepare.VM, addresses prepare.Addresses) machine.Wish {
	w := machine.Wish{
		Desired: vm.Desired(running), Powerdown: time.Duration(*vm.Spec.PowerdownTimeout) * time.Second,
		Cards: vm.Cards(running, addresses),
	}
	if vm.Spec.Display != nil {
		w.User = vm.Spec.Display.LoggedInUser
	}
	return w
}

// reader follows the configuration of a running VM: when the file or a module of the VM's type changes, it reads
// and evaluates both, and passes the result to the driver. The duration depends on files that others have
// written, so a separate goroutine evaluates, one change at a time. A change in the meantime stops it, and it
// begins again.
type reader struct {
	Config
	types *typeWatch

	// The evaluating goroutine owns the following fields.
	source *config.Source
	wanted *prepare.VM // the last usable configuration
	unread bool        // the source has content that is not active
	fault  string      // the reason
}

// task is the work of a reader.
type task struct {
	reload  bool // read the configuration
	asked   bool // it was requested: report a known error again
	types   bool // the modules of the VM's type have changed
	pending bool // compute which changes need a restart
}

func (t task) isNone() bool { return t == task{} }

func (t task) combineWith(other task) task {
	return task{
		t.reload || other.reload, t.asked || other.asked, t.types || other.types, t.pending || other.pending,
	}
}

// runReader follows the configuration until ctx is done.
func (r *reader) runReader(ctx context.Context) {
	changed := config.Watch(ctx, r.Log, r.Running.File, r.Running.FilesOfData()...)
	var todo task
	if r.Adopted {
		todo = task{reload: true, pending: true} // the file may have changed
	}
	r.types.watchType(ctx, r.Options.VMTypes, r.wanted.Config.VMType)
	var left chan task // receives the remaining work; nil while no evaluation is running
	stop := func() {}
	reloading := false // the service manager waits for the end of a reload
	for {
		if left == nil && !todo.isNone() {
			var working context.Context
			working, stop = context.WithCancel(ctx)
			left = make(chan task, 1)
			go func(do task, left chan<- task) { left <- r.doTask(working, do) }(todo, left)
			todo = task{}
		}
		select {
		case rest := <-left:
			stop()
			left = nil
			todo = todo.combineWith(rest)
			r.types.watchType(ctx, r.Options.VMTypes, r.wanted.Config.VMType)
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
		stop() // the current evaluation is out of date
	}
}

// doTask does a task. It returns the remaining work if ctx ends earlier.
func (r *reader) doTask(ctx context.Context, do task) (rest task) {
	r.Log.Debug("evaluation started")
	defer func() {
		if ctx.Err() != nil {
			r.Log.Debug("evaluation given up")
		} else {
			r.Log.Debug("evaluation finished")
		}
	}()
	types := r.newEvaluation(ctx)
	defer types.close()
	if do.reload || do.types && r.fault != "" {
		taken := r.readConfiguration(ctx, types, do.asked)
		if ctx.Err() != nil {
			return do.combineWith(task{reload: true, pending: taken})
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

// readConfiguration reads the configuration and the files next to it, and reports whether another configuration became
// active. If it is invalid, the previous configuration stays active. If the reading was requested, a known error is
// reported again.
func (r *reader) readConfiguration(ctx context.Context, types *evaluation, asked bool) (taken bool) {
	defer func() { r.Sizes.Measure(r.wanted.Spec.Drives) }()
	changed, err := r.source.Reload()
	r.unread = r.unread || changed
	var next *prepare.VM
	if err == nil {
		next, err = r.Running.Renewed(ctx, r.source.Config())
	}
	if err == nil {
		err = types.checkWanted(ctx, next)
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
		r.Log.Warn("the active configuration is not saved", "err", err)
	}
	if err := prepare.EditOrigins(r.Running.DataDir, r.Running.Spec.Drives, func(o prepare.Origins) {
		o.Add(next.Spec.Drives, prepare.Found)
	}); err != nil {
		r.Log.Warn("the origin of new disks is not recorded", "err", err)
	}
	for i, reason := range next.Unpluggable {
		path := fmt.Sprintf("vm.network[%d]", i)
		r.Log.Info("a new network needs a restart of the VM", "path", path, "reason", reason)
	}
	r.Driver.Configured(machine.Reading{
		Wish: Wish(next, r.Running, r.Addresses), Generation: r.source.Generation(),
		Resource: r.source.Config().Resource,
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
