package local

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"vmop/manager/web/fleet"
	"vmop/runner/disks/snapshot"
	"vmop/runner/inventory"
)

// jobs are the changes that continue in the background after the answer to a request.
type jobs struct {
	mu sync.Mutex
	// doing is the current step of a job by VM, failed the error of the last job.
	doing, failed map[string]string
}

// setDoing sets the current step of a VM's job; "" ends the job. It reports whether that is a change.
func (j *jobs) setDoing(vm, text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.doing == nil {
		j.doing, j.failed = map[string]string{}, map[string]string{}
	}
	if j.doing[vm] == text {
		return false
	}
	delete(j.doing, vm)
	if text != "" {
		j.doing[vm] = text
	}
	return true
}

// setFailed sets the error of a VM's last job; nil removes it.
func (j *jobs) setFailed(vm string, err error) {
	j.setDoing(vm, "")
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.failed, vm)
	if err != nil {
		j.failed[vm] = err.Error()
	}
}

// of returns the current step of a VM's job, and the error of the last job.
func (j *jobs) of(vm string) (doing, failed string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.doing[vm], j.failed[vm]
}

// quick is how long a page waits for the result of an action in the background.
const quick = 3 * time.Second

// runInBackground runs do, which may take long, and returns its error if it ends soon. Otherwise the VM shows the
// result, and the log contains the error.
func (f *Fleet) runInBackground(ctx context.Context, name, what string, do func(context.Context) error) error {
	f.jobs.setFailed(name, nil)
	whole := context.WithoutCancel(ctx)
	var answered atomic.Bool // with the error, or without waiting for it
	ended := make(chan error, 1)
	go func() {
		err := do(whole)
		if answered.CompareAndSwap(false, true) {
			f.jobs.setDoing(name, "")
		} else {
			f.jobs.setFailed(name, err)
		}
		if err != nil {
			f.log.Warn("action failed", "vm", name, "action", what, "err", err)
		}
		f.putCurrent(whole, name)
		ended <- err
	}()
	select {
	case err := <-ended:
		return asRefusal(err)
	case <-time.After(quick):
		if answered.CompareAndSwap(false, true) {
			return nil
		}
		return asRefusal(<-ended)
	}
}

// changeInBackground is like runInBackground for a change that the user can correct: all its errors are for the user.
func (f *Fleet) changeInBackground(ctx context.Context, name, what string, do func(context.Context) error) error {
	return f.runInBackground(ctx, name, what, func(ctx context.Context) error { return asChangeRefusal(do(ctx)) })
}

// showStep shows the current step of a VM's job.
func (f *Fleet) showStep(ctx context.Context, name, text string) {
	if f.jobs.setDoing(name, text) {
		f.putCurrent(ctx, name)
	}
}

// showCopy returns a function that shows the progress of a copy.
func (f *Fleet) showCopy(ctx context.Context, name, what string) func(snapshot.Progress) {
	var shown time.Time
	return func(p snapshot.Progress) {
		if time.Since(shown) < time.Second && p.Done < p.Total {
			return
		}
		shown = time.Now()
		text := what
		if p.Total > 0 {
			text = fmt.Sprintf("%s: %d %%", what, 100*p.Done/p.Total)
		}
		f.showStep(ctx, name, text)
	}
}

// putCurrent updates a VM in the list. Not all actions cause an event that would do that.
func (f *Fleet) putCurrent(ctx context.Context, name string) {
	if vm, err := f.inventory.Find(ctx, name); err == nil {
		f.Put(f.viewOf(vm))
	}
}

// viewOf returns a VM as pages show it, with its job.
func (f *Fleet) viewOf(vm *inventory.VM) *fleet.VM {
	v := f.nameViewers(newView(vm))
	if vm.CanAutostart(f.services) {
		v.Autostart = &fleet.Autostart{On: vm.Service.Autostart, AtBoot: f.inventory.StartsAtBoot(vm)}
	}
	doing, failed := f.jobs.of(vm.Name)
	v.Activity = doing
	if failed != "" {
		v.Problems = append(v.Problems, fleet.Problem{Message: failed})
	}
	return v
}
