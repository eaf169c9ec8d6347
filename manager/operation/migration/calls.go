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

// Limits of migrations at a time.
const (
	most        = 5 // in the namespace
	mostOutward = 2 // away from a node
)

// progressStep is by how much percent the progress of a migration grows in the status.
const progressStep = 5

// askTime bounds what is asked of a runner and answered at once.
const askTime = 15 * time.Second

// A Runner is one, as the migration of its guest needs it; *control.Client is one.
type Runner interface {
	// Invitation is that of a runner that waits for a guest.
	Invitation(ctx context.Context) (json.RawMessage, error)
	// Migrate moves the guest, and returns when that has ended.
	Migrate(ctx context.Context, r control.MigrationRequest, tell func(vmstatus.Progress)) error
	// Status is what the runner knows of its VM.
	Status(ctx context.Context) (status.Status, error)
}

// Calls are those of all VMs, by name.
type Calls struct {
	// Source and Target return the runner in the pod of a VM that has the guest, and in the other one.
	Source, Target func(vm *v1.VirtualMachine, pod *corev1.Pod) (Runner, error)
	// Changed is called when there is something new about a VM.
	Changed func(vm string)
	Now     func() time.Time

	mu     sync.Mutex
	calls  map[string]*call
	active map[string]string // the nodes from which guests are being moved
}

// call is a request that is being made, or was.
type call struct {
	Call

	cancel context.CancelFunc
}

// Of returns what is known of the call of a VM.
func (c *Calls) Of(vm string) Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is := c.calls[vm]; is != nil {
		return is.Call
	}
	return Call{}
}

// Admit takes note of how the migration of a VM is, and returns why none can begin; "" if one can.
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

// Gone takes note that there is no such VM any more.
func (c *Calls) Gone(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.active, vm)
	if is := c.calls[vm]; is != nil {
		is.cancel()
		delete(c.calls, vm)
	}
}

// Cancel withdraws the request, if it is being made: the guest stays, unless it was released already.
func (c *Calls) Cancel(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is := c.calls[vm]; is != nil {
		is.cancel()
	}
}

// Forget forgets the answer.
func (c *Calls) Forget(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, vm)
}

// Begin asks the source's runner to move its guest to the target's, which waits for it.
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

// noteProgress takes in how far a request is, and reports whether that is worth to be said.
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

// Query asks the source's runner what has become of a request that an earlier process has made.
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
			return Unknown, errors.New("the guest was released to the other pod, which doesn't answer: it waits until it is " +
				"known what has become of it there, or that it runs nowhere else: kubectl vmop reclaim")
		case s.Migration != nil:
			return Unknown, errors.New("the migration is being ended")
		}
		return Stayed, errors.New("it was interrupted: the manager that had begun it is gone")
	})
}

// startCall makes a request, unless one is being made.
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
