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

// Queue is the controller's queue of VMs to be reconciled.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueuer puts VMs in the controller's queue. A manager that stands by has no queue,
// and drops them: when it becomes the leader, it begins with all VMs.
type enqueuer struct {
	namespace string
	urgency   func(vm string) int
	mu        sync.Mutex
	queue     priorityqueue.PriorityQueue[reconcile.Request]
}

// add enqueues VMs of which something has changed.
func (e *enqueuer) add(vms ...string) { e.enqueue(0, vms) }

// addLast enqueues VMs behind those that change meanwhile.
func (e *enqueuer) addLast(vms ...string) { e.enqueue(calm, vms) }

// enqueue enqueues VMs, each by its urgency and more.
func (e *enqueuer) enqueue(more int, vms []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue == nil {
		return
	}
	for _, vm := range vms {
		priority := more + e.urgency(vm)
		e.queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, e.request(vm))
	}
}

func (e *enqueuer) request(vm string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: e.namespace, Name: vm}}
}

// open sets the queue, and begins with all VMs.
func (e *enqueuer) open(to priorityqueue.PriorityQueue[reconcile.Request], all func() []string) {
	e.mu.Lock()
	e.queue = to
	e.mu.Unlock()
	e.addLast(all()...)
}

// Start implements source.Source: the controller calls it when it leads.
func (s *Store) Start(_ context.Context, to Queue) error {
	queue, ok := to.(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok {
		return fmt.Errorf("start the store: the controller's queue is a %T, without priorities", to)
	}
	s.enqueuer.open(queue, s.concerned)
	return nil
}

// WaitForSync implements source.SyncingSource.
func (s *Store) WaitForSync(ctx context.Context) error { return s.Await(ctx) }

// EnqueueAll enqueues all VMs, behind those that change meanwhile.
func (s *Store) EnqueueAll() { s.enqueuer.addLast(s.concerned()...) }
