package vm

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue is where the controller takes from which VMs are to be looked at.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// wanted hands over which VMs are to be looked at. While this manager stands by
// nobody wants to know: who becomes the leader looks at all.
type wanted struct {
	namespace string
	mu        sync.Mutex
	queue     queue
}

// add makes VMs be looked at.
func (w *wanted) add(vms ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		return
	}
	for _, vm := range vms {
		w.queue.Add(w.request(vm))
	}
}

func (w *wanted) request(vm string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: vm}}
}

// open begins with all VMs.
func (w *wanted) open(to queue, all func() []string) {
	w.mu.Lock()
	w.queue = to
	w.mu.Unlock()
	w.later(all()...)
}

// later makes VMs be looked at; those that change meanwhile come first.
func (w *wanted) later(vms ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil { // settings that change before there is one
		return
	}
	last := handler.LowPriority
	for _, vm := range vms {
		if by, ok := w.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			by.AddWithOpts(priorityqueue.AddOpts{Priority: &last}, w.request(vm))
		} else {
			w.queue.Add(w.request(vm))
		}
	}
}

// Start implements source.Source: the controller does when it leads.
func (m *mirror) Start(_ context.Context, to queue) error {
	m.wanted.open(to, m.vms.all)
	return nil
}

// WaitForSync implements source.SyncingSource.
func (m *mirror) WaitForSync(ctx context.Context) error { return m.await(ctx) }

// watchSettings makes all VMs be looked at when the manager's configuration has
// changed.
func (c *reconciler) watchSettings(ctx context.Context, _ queue) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.opts.Changed:
			}
			c.epoch.Add(1)
			c.mirror.wanted.later(c.mirror.vms.all()...)
		}
	}()
	return nil
}
