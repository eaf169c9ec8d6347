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

// goal reports whether a VM has reached the expected state. An error ends the wait. vm is nil if the VM does not
// exist.
type goal func(vm *v1.VirtualMachine) (reached bool, err error)

// awaitVM waits until a VM reaches a goal, and returns it.
func (c *cluster) awaitVM(ctx context.Context, name string, wanted goal) (*v1.VirtualMachine, error) {
	vm, err := awaitObject(ctx, c.vms, name, wanted)
	if vm != nil {
		withKind(vm)
	}
	return vm, c.explainVM(name, err)
}

// object is a pointer to a resource.
type object[T any] interface {
	*T
	GetResourceVersion() string
}

// source is a client for a kind of resources.
type source[P any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (P, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// retry is the pause before a failed watch is started again.
const retry = time.Second

// pendingText describes what an unfinished object is waiting for. Every new object has a status that claims that no
// manager has seen it.
func pendingText(phase, reason, message string) string {
	if reason == "NotSeen" {
		return "waiting for the manager (kubectl get deployment vm-operator)"
	}
	return cmp.Or(message, phase)
}

// awaitObject waits until a resource reaches a goal, and returns it. wanted is called with nil if the resource
// does not exist; its error ends the wait.
func awaitObject[T any, P object[T]](
	ctx context.Context, client source[P], name string, wanted func(P) (bool, error),
) (P, error) {
	for {
		now, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			now = nil
		case err != nil:
			return nil, causeOf(ctx, err)
		}
		if reached, err := wanted(now); reached || err != nil {
			return now, err
		}
		since := ""
		if now != nil {
			since = now.GetResourceVersion()
		}
		if now, reached, err := followUntil(ctx, client, name, since, wanted); reached || err != nil {
			return now, err
		}
	}
}

// followUntil waits for a change that makes a resource reach a goal. It returns no error if the watch ends first.
func followUntil[T any, P object[T]](
	ctx context.Context, client source[P], name, since string, wanted func(P) (bool, error),
) (P, bool, error) {
	w, err := client.Watch(ctx, selectByName(name, since))
	if err == nil {
		defer w.Stop()
		for e := range w.ResultChan() {
			now, is := e.Object.(any).(P)
			if !is {
				return nil, false, nil // the watched version is too old, for example
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

// causeOf returns the context's error if it explains err.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
