package main

import (
	"cmp"
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	v1 "vmop/api/v1"
)

// A goal reports whether a VM is as it was waited for. An error ends the wait. vm is nil when
// there is none.
type goal func(vm *v1.VirtualMachine) (reached bool, err error)

// await waits until a VM is as wanted, and returns it.
func (c *cluster) await(ctx context.Context, name string, wanted goal) (*v1.VirtualMachine, error) {
	vm, err := awaitObject(ctx, c.vms, name, wanted)
	if vm != nil {
		typed(vm)
	}
	return vm, c.explain(name, err)
}

// An object is a pointer to a resource.
type object[T any] interface {
	*T
	GetResourceVersion() string
}

// A source is a client of a kind of resources.
type source[P any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (P, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// retry is the pause before a watch that has failed is begun again.
const retry = time.Second

// awaited returns what a status says of which more is to come. That no manager has seen an object yet is what each one
// says when it has just been made.
func awaited(phase, reason, message string) string {
	if reason == "NotSeen" {
		return "waiting for the manager (kubectl get deployment vm-operator)"
	}
	return cmp.Or(message, phase)
}

// awaitObject waits until a resource is as wanted, nil if there is none, and returns it. An error of wanted ends
// the wait.
func awaitObject[T any, P object[T]](
	ctx context.Context, client source[P], name string, wanted func(P) (bool, error),
) (P, error) {
	for {
		now, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			now = nil
		case err != nil:
			return nil, because(ctx, err)
		}
		if reached, err := wanted(now); reached || err != nil {
			return now, err
		}
		since := ""
		if now != nil {
			since = now.GetResourceVersion()
		}
		if now, reached, err := follow(ctx, client, name, since, wanted); reached || err != nil {
			return now, err
		}
	}
}

// follow waits for a change after which a resource is as wanted. If the watch ends before, there is no error.
func follow[T any, P object[T]](
	ctx context.Context, client source[P], name, since string, wanted func(P) (bool, error),
) (P, bool, error) {
	w, err := client.Watch(ctx, named(name, since))
	if err == nil {
		defer w.Stop()
		for e := range w.ResultChan() {
			now, is := e.Object.(any).(P)
			if !is {
				return nil, false, nil // what was watched is too old, for example
			}
			if e.Type == watch.Deleted {
				now = nil
			}
			if reached, err := wanted(now); reached || err != nil {
				return now, reached, err
			}
		}
	}
	select {
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	case <-time.After(retry):
		return nil, false, nil
	}
}

// because returns the context's error if it explains err.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
