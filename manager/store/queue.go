package store

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the controller's queue of VMs to be reconciled.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// enqueuer puts VMs in the controller's queue. A manager that stands by has no queue,
// and drops them: when it becomes the leader, it begins with all VMs.
type enqueuer struct {
	namespace string
	mu        sync.Mutex
	queue     Queue
}

// add enqueues VMs.
func (e *enqueuer) add(vms ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue == nil {
		return
	}
	for _, vm := range vms {
		e.queue.Add(e.request(vm))
	}
}

func (e *enqueuer) request(vm string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: e.namespace, Name: vm}}
}

// open sets the queue, and begins with all VMs.
func (e *enqueuer) open(to Queue, all func() []string) {
	e.mu.Lock()
	e.queue = to
	e.mu.Unlock()
	e.addLast(all()...)
}

// addLast enqueues VMs behind those that change meanwhile.
func (e *enqueuer) addLast(vms ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue == nil { // settings that change before this manager leads
		return
	}
	last := handler.LowPriority
	for _, vm := range vms {
		if by, ok := e.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			by.AddWithOpts(priorityqueue.AddOpts{Priority: &last}, e.request(vm))
		} else {
			e.queue.Add(e.request(vm))
		}
	}
}

// Start implements source.Source: the controller calls it when it leads.
func (s *Store) Start(_ context.Context, to Queue) error {
	s.enqueuer.open(to, s.vms.names)
	return nil
}

// WaitForSync implements source.SyncingSource.
func (s *Store) WaitForSync(ctx context.Context) error { return s.Await(ctx) }

// EnqueueAll enqueues all VMs, behind those that change meanwhile.
func (s *Store) EnqueueAll() { s.enqueuer.addLast(s.vms.names()...) }
