package vm

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// mirror is what the manager knows of its namespace without asking: every VM without
// what only the API server needs, pods as far as they tell how they are, and of all
// else the metadata.
type mirror struct {
	namespace string
	vms       *table[*v1.VirtualMachine]
	pods      *table[*corev1.Pod]
	others    [kinds]*table[*metadata]
	wanted    *wanted
}

// newMirror makes one that is empty. Configured is the ConfigMap with the VM types
// of VMs that name none.
func newMirror(namespace string, configured func() string) *mirror {
	m, by := &mirror{namespace: namespace, wanted: &wanted{namespace: namespace}}, newSqueezer()
	m.vms = newTable(vmForm(namespace), by, func(name string, _ row) { m.wanted.add(name) })
	m.pods = newTable(podForm(namespace), by, func(_ string, r row) { m.concerns(r.group) })
	for k := range kinds {
		tell := func(name string, _ row) { m.concerns(name) } // whose it is, or whose way it is in
		switch k {
		case secretKind, claimKind:
			tell = func(_ string, r row) { m.concerns(r.group) }
		case configMapKind:
			tell = func(name string, _ row) {
				m.concerns(name)
				m.concerns(m.usersOfTypes(name, configured())...)
			}
		}
		m.others[k] = newTable(metadataForm(k, namespace), by, tell)
	}
	return m
}

// concerns makes VMs be looked at, if there are such.
func (m *mirror) concerns(vms ...string) {
	for _, vm := range vms {
		if m.vms.has(vm) {
			m.wanted.add(vm)
		}
	}
}

// usersOfTypes are the VMs that use the VM types in a ConfigMap.
func (m *mirror) usersOfTypes(configMap, configured string) []string {
	users := m.vms.strangers(configMap)
	if configMap == configured {
		users = append(users, m.vms.names("")...)
	}
	return users
}

// follow keeps the mirror as the API server says until ctx is done.
func (m *mirror) follow(ctx context.Context, from client.WithWatch) {
	var following sync.WaitGroup
	defer following.Wait()
	ours := labels.Set{objects.LabelName: objects.AppName}
	fill(ctx, &following, from, m.namespace, m.vms, nil, &v1.VirtualMachine{}, func() client.ObjectList { return &v1.VirtualMachineList{} })
	fill(ctx, &following, from, m.namespace, m.pods, ours, &corev1.Pod{}, func() client.ObjectList { return &corev1.PodList{} })
	for k, t := range m.others {
		k, selector := kind(k), labels.Set{}
		if k == secretKind {
			selector = labels.Merge(ours, labels.Set{objects.LabelComponent: objects.ComponentDisplaySecret})
		}
		fill(ctx, &following, from, m.namespace, t, selector, &metadata{}, func() client.ObjectList {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(k.version())
			return list
		})
	}
}

// fill keeps a table filled in the background until ctx is done.
func fill[T client.Object](ctx context.Context, following *sync.WaitGroup, from client.WithWatch, namespace string, t *table[T],
	selector labels.Set, example T, list func() client.ObjectList,
) {
	options := func(o metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{Namespace: namespace, LabelSelector: selector.AsSelector(), Limit: o.Limit, Continue: o.Continue, Raw: &o}
	}
	r := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			all := list()
			return all, from.List(ctx, all, options(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, list(), options(o))
		},
	}, example, t, cache.ReflectorOptions{Name: "manager"})
	following.Go(func() { r.RunWithContext(ctx) })
}

// tables are those that must be filled before anything is done: what is not seen
// would be taken for missing.
func (m *mirror) tables() map[string]<-chan struct{} {
	all := map[string]<-chan struct{}{"VirtualMachine": m.vms.filled, "Pod": m.pods.filled}
	for k, t := range m.others {
		all[kind(k).String()] = t.filled
	}
	return all
}

// missing returns a kind whose objects have not all been seen yet; "" if there is
// none.
func (m *mirror) missing() string {
	for name, filled := range m.tables() {
		select {
		case <-filled:
		default:
			return name
		}
	}
	return ""
}

// await waits until everything has been seen.
func (m *mirror) await(ctx context.Context) error {
	for name, filled := range m.tables() {
		select {
		case <-filled:
		case <-ctx.Done():
			return fmt.Errorf("wait for the list of each %s: %w", name, context.Cause(ctx))
		}
	}
	return nil
}
