package store

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the controller's queue of VMs that need a reconciliation.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueuer adds VMs to the controller's queue. A standby manager has no queue and drops VMs. When it becomes the
// leader, it starts with all VMs.
type enqueuer struct {
	namespace string
	urgency   func(vm string) int
	mu        sync.Mutex
	queue     priorityqueue.PriorityQueue[reconcile.Request]
}

// addVMs enqueues VMs that have changed.
func (e *enqueuer) addVMs(vms ...string) { e.enqueueVMs(0, vms) }

// addLast enqueues VMs behind VMs that have changed.
func (e *enqueuer) addLast(vms ...string) { e.enqueueVMs(calm, vms) }

// enqueueVMs enqueues VMs with the priority urgency plus more.
func (e *enqueuer) enqueueVMs(more int, vms []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue == nil {
		return
	}
	for _, vm := range vms {
		priority := more + e.urgency(vm)
		e.queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, e.requestFor(vm))
	}
}

func (e *enqueuer) requestFor(vm string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: e.namespace, Name: vm}}
}

// openQueue sets the queue and enqueues all VMs.
func (e *enqueuer) openQueue(to priorityqueue.PriorityQueue[reconcile.Request], all func() []string) {
	e.mu.Lock()
	e.queue = to
	e.mu.Unlock()
	e.addLast(all()...)
}

// Start implements source.Source. The controller calls it when the manager becomes the leader.
func (s *Store) Start(_ context.Context, to Queue) error {
	queue, ok := to.(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok {
		return fmt.Errorf("start the store: the controller's queue is a %T, without priorities", to)
	}
	s.enqueuer.openQueue(queue, s.namesToReconcile)
	return nil
}

// WaitForSync implements source.SyncingSource.
func (s *Store) WaitForSync(ctx context.Context) error { return s.Await(ctx) }

// EnqueueAll enqueues all VMs, behind VMs that have changed.
func (s *Store) EnqueueAll() { s.enqueuer.addLast(s.namesToReconcile()...) }
