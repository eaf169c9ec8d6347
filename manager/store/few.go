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

// few stores the objects of a kind with few objects, uncompressed. The manager works without them if it lacks the
// permission to see them, or if their kind is not installed. few is the store of a Reflector.
type few[T client.Object] struct {
	trim func(T) // removes the fields that are never read
	// changed is called with the previous and the current state of a changed object. was is nil for a new object,
	// is for a deleted object.
	changed func(was, is T)
	// listed is called when the objects become known.
	listed func()

	mu          sync.RWMutex // guards the following fields
	all         map[string]T
	unavailable string        // reason why they are not known, or ""
	tried       chan struct{} // closed after the first list or attempt
	once        sync.Once
}

func newFew[T client.Object](trim func(T), changed func(was, is T), listed func()) *few[T] {
	return &few[T]{
		trim: trim, changed: changed, listed: listed, all: map[string]T{},
		unavailable: "they have not been listed yet", tried: make(chan struct{}),
	}
}

// putObjects replaces objects by name; nil removes an object.
func (f *few[T]) putObjects(objects map[string]*T) {
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
	f.putObjects(map[string]*T{o.GetName(): &o})
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
	f.putObjects(map[string]*T{o.GetName(): nil})
	return nil
}

// Replace implements cache.ReflectorStore.
func (f *few[T]) Replace(list []any, _ string) error {
	changes := map[string]*T{}
	for _, o := range f.listObjects() {
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
	f.putObjects(changes)
	if f.setUnknown("") {
		f.listed()
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (f *few[T]) Resync() error { return nil }

// setUnknown sets the reason why the objects are not known; "" if they are. It reports whether that has changed.
func (f *few[T]) setUnknown(why string) bool {
	f.mu.Lock()
	changed := f.unavailable != why
	f.unavailable = why
	f.mu.Unlock()
	f.once.Do(func() { close(f.tried) })
	return changed
}

// getObject returns an object, or nil if it does not exist. Callers must not change it.
func (f *few[T]) getObject(name string) T {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.all[name]
}

// listObjects returns all objects. Callers must not change them.
func (f *few[T]) listObjects() []T {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Collect(maps.Values(f.all))
}

// whyUnknown returns the reason why the objects are not known, or "".
func (f *few[T]) whyUnknown() string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.unavailable
}

// retryTime is the interval between attempts to list objects that are forbidden or have no definition. An
// administrator may add the right or the definition while the manager runs.
const retryTime = 15 * time.Second

// followFew keeps objects in sync with the API server until ctx is done.
func followFew[T client.Object](ctx context.Context, from client.WithWatch, f *few[T], example T,
	list func() client.ObjectList, in ...client.ListOption,
) {
	for ctx.Err() == nil {
		err := from.List(ctx, list(), append(in, client.Limit(1))...)
		why := listErrorHint(err)
		if err == nil || why == "" { // the Reflector retries if the server is unavailable
			break
		}
		f.setUnknown(why)
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

// listErrorHint returns the reason why the cluster's configuration prevents listing objects, and a remedy; "" for other
// errors or nil.
func listErrorHint(err error) string {
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return "the API server doesn't know them (" + err.Error() + "): apply their definition in deploy/crds"
	case apierrors.IsForbidden(err):
		return "the manager needs the ClusterRole vm-operator-cluster (deploy/manager/cluster-account.yaml): " + err.Error()
	}
	return ""
}
