package controller

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/operation"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/decide"
)

// killTime limits the request to a runner to end its machine immediately. The reconciliation doesn't wait for the
// request, since a guest that has broken out may be the one that answers.
const killTime = 10 * time.Second

// operationMemory contains what is remembered about the operations of a VM, which may not exist. Without this memory
// a signal would be sent again, which has no effect, and finished operations would be kept a little longer.
type operationMemory struct {
	seen       map[types.UID]time.Time // since when operations are known to have finished
	sent       types.UID               // the operation whose signal was sent last
	generation int64                   // of the VM after this signal
}

// operationMemories contains the memory of each VM with operations, by name.
type operationMemories struct {
	mu  sync.Mutex
	all map[string]*operationMemory
}

// memoryOf returns the memory of the existing operations, and forgets all others. The controller reconciles a VM in a
// single goroutine at a time, and only this goroutine uses the memory.
func (m *operationMemories) memoryOf(vm string, all []*v1.VirtualMachineOperation, now time.Time) *operationMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(all) == 0 {
		delete(m.all, vm)
		return nil
	}
	have := m.all[vm]
	if have == nil {
		have = &operationMemory{}
		m.all[vm] = have
	}
	before := have.seen
	have.seen = map[types.UID]time.Time{}
	for _, o := range all {
		if at, known := before[o.UID]; known {
			have.seen[o.UID] = at
		} else if o.Status.Phase.Finished() {
			have.seen[o.UID] = now
		}
	}
	return have
}

// followOperations advances the operations that name a VM. s is nil if the VM doesn't exist.
func (c *reconciler) followOperations(ctx context.Context, name string, s *decide.Snapshot) (did decide.Report) {
	all, err := c.store.Operations(name)
	if err != nil {
		did.Err = err
		return did
	}
	now, settings := c.opts.Now(), c.opts.Settings()
	m := c.operations.memoryOf(name, all, now)
	if m == nil {
		return did
	}
	situation := operation.Situation{
		Operations: all, Now: now,
		Retention: operation.Retention{Most: settings.OperationsKept, For: settings.OperationsKeptFor},
		Seen:      func(uid types.UID) time.Time { return m.seen[uid] },
	}
	if s != nil {
		situation.VM, situation.Pod = s.VM, s.Pod
	}
	plan := operation.Decide(situation)
	did.RetryAt(plan.Again)
	for _, o := range plan.Write {
		written, err := c.writer.OperationStatus(ctx, o)
		if !written || err != nil {
			did.Err = err
			return did
		}
		if s != nil && o.Status.Phase == v1.OperationFailed {
			c.writer.OperationFailed(ctx, s, o)
		}
	}
	if plan.Send != nil {
		if did.Err = c.sendSignal(ctx, s, situation, plan.Send, m); did.Err != nil {
			return did
		}
	}
	for _, o := range plan.Remove {
		if did.Err = c.writer.RemoveOperation(ctx, o); did.Err != nil {
			return did
		}
	}
	return did
}

// sendSignal sends the signal of an operation, unless this process has already sent it, and records the signal in the
// operation's status.
func (c *reconciler) sendSignal(ctx context.Context, s *decide.Snapshot, in operation.Situation,
	o *v1.VirtualMachineOperation, m *operationMemory,
) error {
	if m.sent != o.UID {
		signal, err := operation.SignalOf(o, in.VM, in.Pod)
		if err != nil {
			return err
		}
		generation, err := c.writer.Signal(ctx, signal, in.VM, in.Pod)
		if err != nil {
			return err
		}
		m.sent, m.generation = o.UID, generation
		if signal.DeletePod != "" && signal.AtOnce {
			c.killGuest(ctx, in.VM, in.Pod, o)
		}
		c.writer.OperationRequested(ctx, s, o)
	}
	_, err := c.writer.OperationStatus(ctx, in.SentNow(o, m.generation))
	return err
}

// killGuest asks the runner in a terminating pod to stop waiting for its guest. The kubelet can't be relied on: if it
// has received a longer grace period before, it keeps to the longer period.
func (c *reconciler) killGuest(ctx context.Context, vm *v1.VirtualMachine, pod *corev1.Pod,
	o *v1.VirtualMachineOperation,
) {
	if c.opts.Kill == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	go func() {
		defer cancel()
		if err := c.opts.Kill(ctx, vm, pod, apply.Requester(o)); err != nil {
			log.FromContext(ctx).Info("the runner can't be reached to end its machine immediately",
				"vm", vm.Name, "operation", o.Name, "err", err.Error())
		}
	}()
}
