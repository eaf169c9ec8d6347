package capture

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// queue has the snapshots of a kind that are to be looked at.
type queue struct {
	namespace string

	mu sync.Mutex
	to workqueue.TypedRateLimitingInterface[reconcile.Request] // nil: this manager stands by
}

// enqueue makes snapshots be looked at. A manager that stands by begins with all when it leads.
func (q *queue) enqueue(names ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.to == nil {
		return
	}
	for _, name := range names {
		q.to.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: q.namespace, Name: name}})
	}
}

// addTo adds a reconciler of the queue to a manager, which begins with all.
func (q *queue) addTo(mgr manager.Manager, name string, by reconcile.Reconciler, all func()) error {
	ctl, err := controller.New(name, mgr, controller.Options{
		Reconciler: by, MaxConcurrentReconciles: concurrency, RecoverPanic: new(true),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("%s controller: %w", name, err)
	}
	begin := func(_ context.Context, to workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.mu.Lock()
		q.to = to
		q.mu.Unlock()
		all()
		return nil
	}
	if err := ctl.Watch(source.Func(begin)); err != nil {
		return fmt.Errorf("%s controller: %w", name, err)
	}
	return nil
}
