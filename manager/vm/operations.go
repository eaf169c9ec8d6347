package vm

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/apply"
	"vmop/manager/decide"
	"vmop/manager/operation"
)

// killTime bounds the request to a runner to end its machine at once. Nothing waits for it: what
// answers may be a guest that has broken out.
const killTime = 10 * time.Second

// operationMemory is what is remembered of the operations of a VM, which needn't exist.
// Without it a signal would be sent again, which has no effect, and finished operations
// would be kept a little longer.
type operationMemory struct {
	seen       map[types.UID]time.Time // since when operations are known to have finished
	sent       types.UID               // the operation whose signal was sent last
	generation int64                   // of the VM then
}

// operationMemories are those of all VMs with operations, by name.
type operationMemories struct {
	mu  sync.Mutex
	all map[string]*operationMemory
}

// of returns what is remembered of the operations that there are, and forgets all others. The
// controller reconciles a VM in one goroutine at a time, which is the only one that uses it.
func (m *operationMemories) of(vm string, all []*v1.VirtualMachineOperation, now time.Time) *operationMemory {
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

// operate does what there is to do for the operations that name a VM. s is nil if there is no
// such VM.
func (c *reconciler) operate(ctx context.Context, name string, s *decide.Snapshot) (did decide.Report) {
	all, err := c.store.Operations(name)
	if err != nil {
		did.Err = err
		return did
	}
	now, settings := c.opts.Now(), c.opts.Settings()
	m := c.operations.of(name, all, now)
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
		if did.Err = c.send(ctx, s, situation, plan.Send, m); did.Err != nil {
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

// send sends the signal of an operation, unless this process has sent it, and notes that.
func (c *reconciler) send(ctx context.Context, s *decide.Snapshot, in operation.Situation,
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
			c.kill(ctx, in.VM, in.Pod, o)
		}
		c.writer.OperationRequested(ctx, s, o)
	}
	_, err := c.writer.OperationStatus(ctx, in.SentNow(o, m.generation))
	return err
}

// kill asks the runner in a pod that is being deleted not to wait for its guest: a kubelet that
// has got a longer grace period before keeps to that one.
func (c *reconciler) kill(ctx context.Context, vm *v1.VirtualMachine, pod *corev1.Pod, o *v1.VirtualMachineOperation) {
	if c.opts.Kill == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	go func() {
		defer cancel()
		if err := c.opts.Kill(ctx, vm, pod, apply.Requester(o)); err != nil {
			log.FromContext(ctx).Info("the runner can't be reached to end its machine at once",
				"vm", vm.Name, "operation", o.Name, "err", err.Error())
		}
	}()
}
