package vm

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// Indexes of the cache.
const (
	byInstance = "instance" // pods and display secrets, by the VM they say they belong to
	byTypes    = "types"    // VMs, by the ConfigMap that their types come from
)

func addIndexes(ctx context.Context, in client.FieldIndexer) error {
	for _, index := range []struct {
		object client.Object
		name   string
		keys   client.IndexerFunc
	}{
		{&corev1.Pod{}, byInstance, instanceOf},
		{metadataOf(secretKind), byInstance, instanceOf},
		{&v1.VirtualMachine{}, byTypes, typesOf},
	} {
		if err := in.IndexField(ctx, index.object, index.name, index.keys); err != nil {
			return fmt.Errorf("index by %s: %w", index.name, err)
		}
	}
	return nil
}

func instanceOf(object client.Object) []string {
	if name := object.GetLabels()[objects.LabelInstance]; name != "" {
		return []string{name}
	}
	return nil
}

// typesOf says "" for VMs that have the manager's types.
func typesOf(object client.Object) []string {
	if vm, ok := object.(*v1.VirtualMachine); ok {
		return []string{"-" + vm.Spec.VMType.ConfigMap} // an index can't have "" as a key
	}
	return nil
}

// sources are what VMs are looked at for.
func (c *reconciler) sources(mgr manager.Manager) []source.Source {
	from := mgr.GetCache()
	all := []source.Source{
		source.Kind(from, client.Object(&v1.VirtualMachine{}), &handler.EnqueueRequestForObject{}),
		source.Kind(from, client.Object(&corev1.Pod{}), handler.EnqueueRequestsFromMapFunc(instance)),
		watchKind(from, secretKind, instance),
		watchKind(from, claimKind, instance),
		watchKind(from, statefulSetKind, sameName),
		watchKind(from, serviceKind, sameName),
		watchKind(from, configMapKind, sameName),
		watchKind(from, configMapKind, c.usersOfTypes),
	}
	if c.opts.Changed != nil {
		all = append(all, source.Func(c.watchSettings))
	}
	return all
}

func watchKind(from cache.Cache, k kind, requests handler.MapFunc) source.Source {
	return source.Kind(from, client.Object(metadataOf(k)), handler.EnqueueRequestsFromMapFunc(requests))
}

// instance is the VM that an object says it belongs to.
func instance(_ context.Context, object client.Object) []reconcile.Request {
	if name := object.GetLabels()[objects.LabelInstance]; name != "" {
		return []reconcile.Request{request(object.GetNamespace(), name)}
	}
	return nil
}

// sameName is the VM that an object belongs to, or is in the way of.
func sameName(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{request(object.GetNamespace(), object.GetName())}
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// usersOfTypes are the VMs that use the VM types in a ConfigMap.
func (c *reconciler) usersOfTypes(ctx context.Context, object client.Object) []reconcile.Request {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	requests := c.vms(ctx, client.MatchingFields{byTypes: "-" + object.GetName()})
	if object.GetName() == c.opts.Settings().VMTypes {
		requests = append(requests, c.vms(ctx, client.MatchingFields{byTypes: "-"})...)
	}
	return requests
}

// vms returns requests for the VMs in the cache.
func (c *reconciler) vms(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	var list v1.VirtualMachineList
	if err := c.client.List(ctx, &list, append(opts, client.InNamespace(c.opts.Namespace), client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "VMs not listed")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, request(list.Items[i].Namespace, list.Items[i].Name))
	}
	return requests
}

// watchSettings makes all VMs be looked at when the manager's configuration has
// changed.
func (c *reconciler) watchSettings(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case _, open := <-c.opts.Changed:
				if !open {
					return
				}
			}
			for _, r := range c.vms(ctx) {
				queue.Add(r)
			}
		}
	}()
	return nil
}
