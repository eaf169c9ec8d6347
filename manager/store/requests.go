package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Delays before a failed reconciliation is repeated.
const (
	FirstRetry = 100 * time.Millisecond
	LastRetry  = 2 * time.Minute
)

// NewRateLimiter returns a rate limiter that counts failures per object. The default limiter has a shared limit,
// which would make 5000 objects wait for each other.
func NewRateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](FirstRetry, LastRetry)
}

// Requests is the queue of a controller of named objects in a namespace. Its zero value is ready to use. A
// standby manager has no queue and drops requests. When it becomes the leader, its controller starts with all
// objects.
type Requests struct {
	mu        sync.Mutex
	namespace string
	queue     Queue
}

// Controlled describes the controller of a [Requests].
type Controlled struct {
	Name        string // for logs and metrics, such as "disk"
	Namespace   string
	Reconciler  reconcile.Reconciler
	Concurrency int // concurrent reconciliations
	// EnqueueAll enqueues all objects.
	EnqueueAll func()
	// Await waits until the reconciler's data is known. nil means no wait.
	Await func(context.Context) error
	// Follow watches the objects until its context is done, even in a standby manager.
	Follow func(context.Context)
}

// Enqueue requests reconciliations of objects.
func (r *Requests) Enqueue(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue == nil {
		return
	}
	for _, name := range names {
		r.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.namespace, Name: name}})
	}
}

// Open sets the queue.
func (r *Requests) Open(namespace string, queue Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.namespace, r.queue = namespace, queue
}

// Add adds the controller to a manager. If its reconciler panics, the reconciliation fails and is repeated.
func (r *Requests) Add(mgr manager.Manager, c Controlled) error {
	ctl, err := controller.New(c.Name, mgr, controller.Options{
		Reconciler: c.Reconciler, MaxConcurrentReconciles: c.Concurrency, RecoverPanic: new(true),
		RateLimiter: NewRateLimiter(),
	})
	if err == nil {
		err = ctl.Watch(opening{r, c})
	}
	if err == nil {
		err = mgr.Add(Always(func(ctx context.Context) error {
			c.Follow(ctx)
			return nil
		}))
	}
	if err != nil {
		return fmt.Errorf("%s controller: %w", c.Name, err)
	}
	return nil
}

// opening is the source of a controller's objects.
type opening struct {
	requests *Requests
	of       Controlled
}

var _ source.SyncingSource = opening{}

// Start implements source.Source. The controller calls it when the manager becomes the leader.
func (o opening) Start(_ context.Context, queue Queue) error {
	o.requests.Open(o.of.Namespace, queue)
	o.of.EnqueueAll()
	return nil
}

// WaitForSync implements source.SyncingSource.
func (o opening) WaitForSync(ctx context.Context) error {
	if o.of.Await == nil {
		return nil
	}
	return o.of.Await(ctx)
}
