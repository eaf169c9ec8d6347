package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// few has the objects of a kind of the whole cluster, of which there are few, so they are kept
// as they are. The manager works without them, where it may not see them, or where their kind
// is not installed. It is the store of a Reflector.
type few[T client.Object] struct {
	trim func(T) // leaves out what is not read
	// changed is called with what has changed, and what it was: nil is a new one, or one
	// that is gone.
	changed func(was, is T)
	// listed is called when the objects are known after they were not.
	listed func()

	mu          sync.RWMutex // of what follows
	all         map[string]T
	unavailable string        // why they are not known; "" if they are
	tried       chan struct{} // closed after the first list, or attempt
	once        sync.Once
}

func newFew[T client.Object](trim func(T), changed func(was, is T), listed func()) *few[T] {
	return &few[T]{
		trim: trim, changed: changed, listed: listed, all: map[string]T{},
		unavailable: "they have not been listed yet", tried: make(chan struct{}),
	}
}

// put replaces objects by their names; nil takes one away.
func (f *few[T]) put(objects map[string]*T) {
	was := map[string]T{}
	f.mu.Lock()
	for name, object := range objects {
		was[name] = f.all[name]
		if delete(f.all, name); object != nil {
			f.all[name] = *object
		}
	}
	f.mu.Unlock()
	for name, object := range objects {
		var is T
		if object != nil {
			is = *object
		}
		f.changed(was[name], is)
	}
}

// Add implements cache.ReflectorStore.
func (f *few[T]) Add(object any) error {
	o, ok := object.(T)
	if !ok {
		return fmt.Errorf("store an object: unexpected type %T", object)
	}
	f.trim(o)
	f.put(map[string]*T{o.GetName(): &o})
	return nil
}

// Update implements cache.ReflectorStore.
func (f *few[T]) Update(object any) error { return f.Add(object) }

// Delete implements cache.ReflectorStore.
func (f *few[T]) Delete(object any) error {
	o, ok := object.(T)
	if !ok {
		return fmt.Errorf("remove an object from the store: unexpected type %T", object)
	}
	f.put(map[string]*T{o.GetName(): nil})
	return nil
}

// Replace implements cache.ReflectorStore.
func (f *few[T]) Replace(list []any, _ string) error {
	changes := map[string]*T{}
	for _, o := range f.list() {
		changes[o.GetName()] = nil
	}
	for _, object := range list {
		o, ok := object.(T)
		if !ok {
			return fmt.Errorf("store an object: unexpected type %T", object)
		}
		f.trim(o)
		changes[o.GetName()] = &o
	}
	f.put(changes)
	if f.known("") {
		f.listed()
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (f *few[T]) Resync() error { return nil }

// known sets why the objects are not known; "" if they are. It reports whether that is new.
func (f *few[T]) known(why string) bool {
	f.mu.Lock()
	changed := f.unavailable != why
	f.unavailable = why
	f.mu.Unlock()
	f.once.Do(func() { close(f.tried) })
	return changed
}

// get returns an object, which must not be changed; nil if there is none.
func (f *few[T]) get(name string) T {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.all[name]
}

// list returns all objects, which must not be changed.
func (f *few[T]) list() []T {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Collect(maps.Values(f.all))
}

// why returns why the objects are not known; "" if they are.
func (f *few[T]) why() string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.unavailable
}

// retryTime is when the manager tries again to list what it may not, or what isn't there: a
// right or a definition may be added while it runs.
const retryTime = 15 * time.Second

// followFew keeps objects as the API server has them, until ctx is done.
func followFew[T client.Object](ctx context.Context, from client.WithWatch, f *few[T], example T,
	list func() client.ObjectList, in ...client.ListOption,
) {
	for ctx.Err() == nil {
		err := from.List(ctx, list(), append(in, client.Limit(1))...)
		why := refusal(err)
		if err == nil || why == "" { // of a server that is away, the Reflector tries again
			break
		}
		f.known(why)
		select {
		case <-ctx.Done():
		case <-time.After(retryTime):
		}
	}
	cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			all := list()
			page := &client.ListOptions{Limit: o.Limit, Continue: o.Continue, Raw: &o}
			return all, from.List(ctx, all, append(in, page)...)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, list(), append(in, &client.ListOptions{Raw: &o})...)
		},
	}, example, f, cache.ReflectorOptions{Name: "manager"}).RunWithContext(ctx)
}

// refusal says what to do where objects can't be listed as the cluster is; "" for another
// error, or none.
func refusal(err error) string {
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return "the API server doesn't know them (" + err.Error() + "): apply their definition in deploy/crds"
	case apierrors.IsForbidden(err):
		return "the manager needs the ClusterRole vm-operator-cluster (deploy/manager/cluster-account.yaml): " + err.Error()
	}
	return ""
}
