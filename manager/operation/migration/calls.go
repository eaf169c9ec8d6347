package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/internal/printable"
	"vmop/runner/control"
	"vmop/runner/migrate"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// Limits for concurrent migrations.
const (
	most        = 5 // in the namespace
	mostOutward = 2 // away from a node
)

// progressStep is how many percent of progress cause an update of the status.
const progressStep = 5

// askTime is the timeout for requests that a runner answers immediately.
const askTime = 15 * time.Second

// A Runner is the API of a runner that migrations use. *control.Client implements it.
type Runner interface {
	// Invitation returns the invitation of a runner that waits for a guest.
	Invitation(ctx context.Context) (json.RawMessage, error)
	// Migrate moves the guest, and returns when the migration has ended. It calls tell with the progress.
	Migrate(ctx context.Context, r control.MigrationRequest, tell func(vmstatus.Progress)) error
	// Status returns the runner's view of its VM.
	Status(ctx context.Context) (status.Status, error)
}

// Calls tracks the migration requests of all VMs, by VM name.
type Calls struct {
	// Source and Target return the runner in the pod with the guest, and in the other pod of the VM.
	Source, Target func(vm *v1.VirtualMachine, pod *corev1.Pod) (Runner, error)
	// Changed is called when the call of a VM has changed.
	Changed func(vm string)
	Now     func() time.Time

	mu     sync.Mutex
	calls  map[string]*call
	active map[string]string // the source nodes of active migrations
}

// call is a current or past request.
type call struct {
	Call

	cancel context.CancelFunc
}

// Of returns the state of a VM's call; zero if there is none.
func (c *Calls) Of(vm string) Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is := c.calls[vm]; is != nil {
		return is.Call
	}
	return Call{}
}

// Admit records whether the VM is migrating, and returns why a migration can't begin now; "" if it can.
func (c *Calls) Admit(vm *v1.VirtualMachine, pod *corev1.Pod) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := vm.Status.Migration; m.Active() {
		if c.active == nil {
			c.active = map[string]string{}
		}
		c.active[vm.Name] = m.Source.NodeName
		return ""
	}
	delete(c.active, vm.Name)
	if pod == nil {
		return ""
	}
	outward := 0
	for _, node := range c.active {
		if node == pod.Spec.NodeName {
			outward++
		}
	}
	switch {
	case len(c.active) >= most:
		return fmt.Sprintf("%d guests are being moved", most)
	case outward >= mostOutward:
		return fmt.Sprintf("%d guests are being moved away from node %s", mostOutward, pod.Spec.NodeName)
	}
	return ""
}

// Gone forgets a VM that no longer exists, and cancels its request.
func (c *Calls) Gone(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.active, vm)
	if is := c.calls[vm]; is != nil {
		is.cancel()
		delete(c.calls, vm)
	}
}

// Cancel cancels a running request. The guest stays, unless it was released already.
func (c *Calls) Cancel(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is := c.calls[vm]; is != nil {
		is.cancel()
	}
}

// Forget forgets the result.
func (c *Calls) Forget(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, vm)
}

// Begin asks the source runner to move its guest to the target runner, which waits for it.
func (c *Calls) Begin(ctx context.Context, vm *v1.VirtualMachine, source, target *corev1.Pod) {
	c.startCall(ctx, vm.Name, func(ctx context.Context, is *call) (Result, error) {
		from, err := c.Source(vm, source)
		if err != nil {
			return Stayed, err
		}
		to, err := c.Target(vm, target)
		if err != nil {
			return Stayed, err
		}
		asking, cancel := context.WithTimeout(ctx, askTime)
		invitation, err := to.Invitation(asking)
		cancel()
		if err != nil {
			return Stayed, fmt.Errorf("get the invitation of the target: %w", err)
		}
		err = from.Migrate(ctx, control.MigrationRequest{Invitation: invitation}, func(p vmstatus.Progress) {
			if c.noteProgress(is, p) {
				c.Changed(vm.Name)
			}
		})
		switch {
		case err == nil:
			return Moved, nil
		case errors.Is(err, control.ErrMigrationUnknown):
			return Unknown, err
		}
		return Stayed, err
	})
}

// noteProgress records the progress of a request, and reports whether to update the status.
func (c *Calls) noteProgress(is *call, p vmstatus.Progress) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	is.Transferred = max(is.Transferred, p.Transferred)
	total := p.Total + p.DiskTotal // disks are copied first
	if total <= 0 {
		return false
	}
	before := is.Progress
	is.Progress = max(before, min(99, int32(100*(p.Total-p.Remaining+p.DiskCopied)/total)))
	return is.Progress/progressStep != before/progressStep
}

// Query asks the source runner for the result of a request that an earlier manager process made.
func (c *Calls) Query(ctx context.Context, vm *v1.VirtualMachine, source *corev1.Pod) {
	c.startCall(ctx, vm.Name, func(ctx context.Context, _ *call) (Result, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		from, err := c.Source(vm, source)
		if err != nil {
			return Unknown, err
		}
		s, err := from.Status(ctx)
		switch {
		case err != nil:
			return Unknown, err
		case s.Outcome != nil && s.Outcome.Cause == vmstatus.CauseMoved:
			return Moved, nil
		case s.Migration != nil && s.Migration.Stage == string(migrate.Asking):
			return Unknown, errors.New("the guest was released to the other pod, which doesn't answer: it waits until its " +
				"state there is known; if it runs nowhere else: kubectl vmop reclaim")
		case s.Migration != nil:
			return Unknown, errors.New("the migration is being ended")
		}
		return Stayed, errors.New("it was interrupted: the manager that had begun it is gone")
	})
}

// startCall starts a request, unless another one is running.
func (c *Calls) startCall(ctx context.Context, vm string, do func(context.Context, *call) (Result, error)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	is := &call{Call{Running: true}, cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.calls[vm]; old != nil && old.Running {
		cancel()
		return
	}
	if c.calls == nil {
		c.calls = map[string]*call{}
	}
	c.calls[vm] = is
	go func() {
		defer cancel()
		result, err := do(ctx, is)
		c.mu.Lock()
		is.Running, is.Result, is.At = false, result, c.Now()
		if err != nil {
			is.Message = printable.Line(err.Error())
		}
		c.mu.Unlock()
		c.Changed(vm)
	}()
}
