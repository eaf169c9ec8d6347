package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// Store holds the objects of one namespace. Follow fills it. It is a source of the controller, and enqueues the
// VMs that a change concerns. It is safe for concurrent use.
type Store struct {
	namespace string
	vms       *collection[*v1.VirtualMachine]
	pods      *collection[*corev1.Pod]
	ops       *collection[*v1.VirtualMachineOperation]
	others    [objects.Kinds]*collection[*objects.Metadata]
	data      map[corev1.SecretType]*collection[*objects.Metadata] // that guests configure themselves from
	classes   *few[*v1.VirtualMachineClass]
	nodes     *few[*corev1.Node]
	pools     *Pools
	enqueuer  *enqueuer
	shown     []func(vm string)
	uses      chan struct{} // see ClassesChanged
}

// New returns an empty store. configured returns the name of the ConfigMap with the types for VMs that name no
// ConfigMap.
func New(namespace string, configured func() string) *Store {
	s, by := &Store{namespace: namespace, uses: make(chan struct{}, 1)}, newCompressor()
	s.classes = newFew(trimClass, s.classChanged, func() { s.EnqueueAll() })
	s.nodes = newFew(trimNode, func(was, is *corev1.Node) {
		s.wakeAll()
		if isDrained(was) != isDrained(is) {
			s.EnqueueAll()
		}
	}, func() {
		s.wakeAll()
		if slices.ContainsFunc(s.nodes.listObjects(), isDrained) {
			s.EnqueueAll()
		}
	})
	s.enqueuer = &enqueuer{namespace: namespace, urgency: func(vm string) int { return s.vms.urgencyOf(vm) }}
	s.vms = newCollection(vmEncoding(namespace), by, func(name string, r record) {
		s.enqueuer.addVMs(name)
		s.showChange(name)
		if r.commonOf().class != "" {
			s.wakeAll()
		}
	})
	s.pods = newCollection(podEncoding(namespace), by, func(_ string, r record) {
		s.enqueueVMs(r.group)
		s.showChange(r.group)
	})
	s.ops = newCollection(operationEncoding(namespace), by, func(_ string, r record) {
		s.enqueuer.addVMs(r.group) // even if the VM does not exist
		s.showChange(r.group)
	})
	for k := range objects.Kinds {
		// The VM of that name owns the object, or wants to own it while the object is in the way.
		changed := func(name string, _ record) { s.enqueueVMs(name) }
		switch k {
		case objects.KindSecret, objects.KindClaim:
			changed = func(_ string, r record) { s.enqueueVMs(r.group) }
		case objects.KindConfigMap:
			changed = func(name string, _ record) {
				s.enqueueVMs(name)
				if vm, is := objects.UserOfTypeImage(name); is {
					s.enqueueVMs(vm)
				}
				s.enqueueVMs(s.usersOfTypes(name, configured())...)
				s.enqueueVMs(s.usersOfClassTypes(name)...)
			}
		}
		s.others[k] = newCollection(metadataEncoding(k, namespace), by, changed)
	}
	s.data = map[corev1.SecretType]*collection[*objects.Metadata]{}
	for _, t := range []corev1.SecretType{v1.SecretTypeCloudInit, v1.SecretTypeSysprep} {
		s.data[t] = newCollection(dataEncoding(namespace), by, func(name string, _ record) {
			s.enqueueVMs(s.usersOfData(name)...)
		})
	}
	s.pools = newPools(namespace, s)
	return s
}

// Pools returns the store of pools and of the VMs in them.
func (s *Store) Pools() *Pools { return s.pools }

// LogsIn reports whether a pool logs in the users that it assigns VMs to.
func (s *Store) LogsIn(pool string) bool {
	p := s.pools.Pool(pool)
	return p != nil && p.Spec.LoginOnAssignment
}

// OnChange registers show, which is called with the name of each VM whenever the VM, its pod or one of its
// operations is created, changed or deleted. show must return quickly. OnChange must be called before Follow.
func (s *Store) OnChange(show func(vm string)) { s.shown = append(s.shown, show) }

func (s *Store) showChange(vm string) {
	for _, show := range s.shown {
		show(vm)
	}
}

// Names returns the names of all VMs.
func (s *Store) Names() []string { return s.vms.objectNames() }

// Used returns the resources of all guests together: CPUs, and RAM in bytes.
func (s *Store) Used() (cpus, ram int64) {
	cpus, ram = s.vms.sumSizes()
	return cpus, ram << 20
}

// Outline contains the facts about a VM that are available without decoding it.
type Outline struct {
	Name  string
	Phase v1.Phase
	// CPUs and RAM, in bytes, of the guest.
	CPUs, RAM int64
}

// Outlines returns the outlines of all VMs, sorted by name.
func (s *Store) Outlines() []Outline {
	var all []Outline
	s.vms.eachRecord(func(name string, r record) {
		all = append(all, Outline{name, v1.Phase(r.commonOf().state), int64(r.cpus), int64(r.ram) << 20})
	})
	slices.SortFunc(all, func(a, b Outline) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Permissions returns a VM's permissions without decoding the VM.
func (s *Store) Permissions(name string) (list []v1.Permission, err error) {
	s.vms.mu.RLock()
	text := s.vms.records[name].commonOf().permissions
	s.vms.mu.RUnlock()
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read the permissions of %s from the store: %w", name, err)
	}
	return list, nil
}

// Pooled reports whether a VM is in a pool, was created by a pool, or is assigned. It does not decode the VM.
func (s *Store) Pooled(name string) bool {
	s.vms.mu.RLock()
	defer s.vms.mu.RUnlock()
	return s.vms.records[name].commonOf().pooled
}

// LearnVM stores a VM that a write has returned.
func (s *Store) LearnVM(vm *v1.VirtualMachine) error { return s.vms.learnWrite(vm) }

// VM returns a VM, or nil if it does not exist.
func (s *Store) VM(name string) (*v1.VirtualMachine, error) { return s.vms.getObject(name) }

// Pod returns the pod of a VM, or nil if it does not exist. The pod of a deleted VM may have either ordinal.
func (s *Store) Pod(vm string) (*corev1.Pod, error) {
	pod, err := s.PodAt(vm, s.vms.ordinalOf(vm))
	if pod == nil && err == nil && !s.vms.hasObject(vm) {
		return s.PodAt(vm, 1)
	}
	return pod, err
}

// PodAt returns the pod that a VM's stateful set has created with an ordinal, or nil if it does not exist.
func (s *Store) PodAt(vm string, ordinal int32) (*corev1.Pod, error) {
	pod, err := s.pods.getObject(objects.PodName(vm, ordinal))
	if err != nil || pod == nil || pod.Labels[objects.LabelInstance] != vm {
		return nil, err
	}
	return pod, nil
}

// Strays returns the pods with the label of a VM that its stateful set has not created and that have not ended.
func (s *Store) Strays(vm string) ([]*corev1.Pod, error) {
	var strays []*corev1.Pod
	for _, name := range s.pods.irregularNames(vm) {
		if name == objects.PodName(vm, 1) {
			continue
		}
		pod, err := s.pods.getObject(name)
		if err != nil {
			return nil, err
		}
		if pod != nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			strays = append(strays, pod)
		}
	}
	return strays, nil
}

// Operations returns the operations that name a VM, sorted by name. The VM need not exist.
func (s *Store) Operations(vm string) (all []*v1.VirtualMachineOperation, err error) {
	for _, name := range s.ops.irregularNames(vm) {
		o, err := s.ops.getObject(name)
		if err != nil {
			return nil, err
		}
		if o != nil {
			all = append(all, o)
		}
	}
	return all, nil
}

// Operation returns an operation, or nil if it does not exist.
func (s *Store) Operation(name string) (*v1.VirtualMachineOperation, error) {
	return s.ops.getObject(name)
}

// namesToReconcile returns the names of all VMs, and of missing VMs that have operations.
func (s *Store) namesToReconcile() []string {
	names := s.vms.objectNames()
	for _, vm := range s.ops.irregularGroups() {
		if !s.vms.hasObject(vm) {
			names = append(names, vm)
		}
	}
	return names
}

// Metadata returns the metadata of an object, or nil if it does not exist.
func (s *Store) Metadata(k objects.Kind, name string) (*objects.Metadata, error) {
	return s.others[k].getObject(name)
}

// DisplaySecrets returns the metadata of a VM's display secrets.
func (s *Store) DisplaySecrets(vm string) ([]objects.Metadata, error) {
	var found []objects.Metadata
	secrets := s.others[objects.KindSecret]
	for _, name := range append(secrets.irregularNames(vm), objects.DisplaySecretOf(vm)) {
		secret, err := secrets.getObject(name)
		if err != nil {
			return nil, err
		}
		if secret != nil && instanceOf(secret) == vm {
			found = append(found, *secret)
		}
	}
	return found, nil
}

// DataSecret returns the metadata of a Secret that guests configure themselves from, or nil if no Secret of that
// type and name exists.
func (s *Store) DataSecret(of corev1.SecretType, name string) (*objects.Metadata, error) {
	return s.data[of].getObject(name)
}

// Phases counts VMs by phase.
func (s *Store) Phases() map[v1.Phase]int {
	counts := map[v1.Phase]int{}
	for phase, count := range s.vms.countStates() {
		counts[v1.Phase(phase)] = count
	}
	return counts
}

// Put stores an object as a watch does. It is for tests without an API server.
func (s *Store) Put(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualMachine:
		return s.vms.Add(o)
	case *corev1.Pod:
		return s.pods.Add(o)
	case *v1.VirtualMachineOperation:
		return s.ops.Add(o)
	case *v1.VirtualMachineClass:
		return s.classes.Add(o)
	case *v1.VmPool:
		return s.pools.pools.Add(o)
	case *objects.Metadata:
		for k, c := range s.others {
			if objects.Kind(k).String() == o.Kind {
				return c.Add(o)
			}
		}
	}
	return errors.New("store an object: there is no collection of its kind")
}

// enqueueVMs enqueues VMs that exist.
func (s *Store) enqueueVMs(vms ...string) {
	for _, vm := range vms {
		if s.vms.hasObject(vm) {
			s.enqueuer.addVMs(vm)
		}
	}
}

// Enqueue requests reconciliations of VMs. It ignores VMs that do not exist.
func (s *Store) Enqueue(vms ...string) { s.enqueueVMs(vms...) }

// EnqueueAny requests reconciliations of VMs, even if they do not exist.
func (s *Store) EnqueueAny(vms ...string) { s.enqueuer.addVMs(vms...) }

// UsersOf returns the VMs that name a disk.
func (s *Store) UsersOf(disk objects.DeviceRef) []string { return s.usersOfData(disk.String()) }

// Devices returns the names of the VMs that name a disk or an image, by the result of objects.DeviceRef.String.
func (s *Store) Devices() map[string][]string {
	all := map[string][]string{}
	s.vms.eachRecord(func(vm string, r record) {
		for name := range strings.Lines(r.commonOf().data) {
			name = strings.TrimSuffix(name, "\n")
			all[name] = append(all[name], vm)
		}
	})
	return all
}

// usersOfTypes returns the VMs that use the VM types in a ConfigMap.
func (s *Store) usersOfTypes(configMap, configured string) []string {
	users := s.vms.irregularNames(configMap)
	if configMap == configured {
		users = append(users, s.vms.groupNames("")...)
	}
	return users
}

// usersOfData returns the VMs that name a Secret for their guest's configuration, or that name a disk.
func (s *Store) usersOfData(name string) (users []string) {
	s.vms.eachRecord(func(vm string, r record) {
		if strings.Contains("\n"+r.commonOf().data, "\n"+name+"\n") {
			users = append(users, vm)
		}
	})
	return users
}

// Follow keeps the store in sync with the API server until ctx is done.
func (s *Store) Follow(ctx context.Context, from client.WithWatch) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		followFew(ctx, from, s.classes, &v1.VirtualMachineClass{},
			func() client.ObjectList { return &v1.VirtualMachineClassList{} })
	})
	running.Go(func() { s.pools.followPools(ctx, from) })
	running.Go(func() {
		followFew(ctx, from, s.nodes, &corev1.Node{}, func() client.ObjectList { return &corev1.NodeList{} })
	})
	ours := labels.Set{objects.LabelName: objects.AppName}
	runReflector(ctx, &running, from, s.namespace, s.vms, client.ListOptions{}, &v1.VirtualMachine{},
		func() client.ObjectList { return &v1.VirtualMachineList{} })
	runners := client.ListOptions{LabelSelector: ours.AsSelector()}
	runReflector(ctx, &running, from, s.namespace, s.pods, runners, &corev1.Pod{},
		func() client.ObjectList { return &corev1.PodList{} })
	runReflector(ctx, &running, from, s.namespace, s.ops, client.ListOptions{}, &v1.VirtualMachineOperation{},
		func() client.ObjectList { return &v1.VirtualMachineOperationList{} })
	for k, c := range s.others {
		k, some := objects.Kind(k), client.ListOptions{}
		if k == objects.KindSecret {
			display := labels.Merge(ours, labels.Set{objects.LabelComponent: objects.ComponentDisplaySecret})
			some.LabelSelector = display.AsSelector()
		}
		runReflector(ctx, &running, from, s.namespace, c, some, &objects.Metadata{}, metadataList(k))
	}
	for t, c := range s.data {
		some := client.ListOptions{FieldSelector: fields.OneTermEqualSelector("type", string(t))}
		runReflector(ctx, &running, from, s.namespace, c, some, &objects.Metadata{}, metadataList(objects.KindSecret))
	}
}

func metadataList(k objects.Kind) func() client.ObjectList {
	return func() client.ObjectList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(k.Version())
		return list
	}
}

// runReflector runs the Reflector of a collection in the background until ctx is done.
func runReflector[T client.Object](ctx context.Context, running *sync.WaitGroup, from client.WithWatch,
	namespace string,
	c *collection[T], some client.ListOptions, example T, list func() client.ObjectList,
) {
	options := func(o metav1.ListOptions) *client.ListOptions {
		these := some
		these.Namespace, these.Limit, these.Continue, these.Raw = namespace, o.Limit, o.Continue, &o
		return &these
	}
	r := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			all := list()
			return all, from.List(ctx, all, options(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return from.Watch(ctx, list(), options(o))
		},
	}, example, c, cache.ReflectorOptions{Name: "manager"})
	running.Go(func() { r.RunWithContext(ctx) })
}

// listedChannels returns channels, by kind, that are closed when the kind has been listed. Callers must not act
// before, because objects that have not been listed would look missing.
func (s *Store) listedChannels() map[string]<-chan struct{} {
	all := map[string]<-chan struct{}{
		"VirtualMachine": s.vms.listed, "Pod": s.pods.listed, "VirtualMachineOperation": s.ops.listed,
		"VirtualMachineClass": s.classes.tried, "VmPool": s.pools.pools.tried,
	}
	for k, c := range s.others {
		all[objects.Kind(k).String()] = c.listed
	}
	for t, c := range s.data {
		all["Secret of type "+string(t)] = c.listed
	}
	return all
}

// Unlisted returns the kinds that have not been listed yet, sorted.
func (s *Store) Unlisted() []string {
	var kinds []string
	for kind, listed := range s.listedChannels() {
		select {
		case <-listed:
		default:
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// Await waits until the objects of all kinds have been listed.
func (s *Store) Await(ctx context.Context) error {
	all := s.listedChannels()
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		select {
		case <-all[kind]:
		case <-ctx.Done():
			return fmt.Errorf("wait for the list of each %s: %w", kind, context.Cause(ctx))
		}
	}
	return nil
}
