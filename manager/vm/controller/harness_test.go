package controller

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1 "vmop/api/v1"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/objects"
	"vmop/test/cluster/clustertest"
	"vmop/test/logbook"
	"vmop/test/wait"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// tick is the interval for checking states that cause no events.
const tick = 50 * time.Millisecond

// The following constants are values that runners report.
const (
	stateBooting    = string(vmstatus.StateBooting)
	stateBooted     = string(vmstatus.StateBooted)
	stateStopped    = string(vmstatus.StateStopped)
	causeGuest      = string(vmstatus.CauseGuest)
	reasonVMStopped = string(vmstatus.ReasonVMStopped)
)

// node is a node without a kubelet: the tests play the kubelet, and only they schedule pods to it.
const node = "node1"

// shared is the cluster that the tests of this package share.
var shared = clustertest.Shared{Prepare: playNode}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(shared.Run(m))
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientscheme.AddToScheme(s); err != nil {
		panic(err)
	}
	if err := v1.AddToScheme(s); err != nil {
		panic(err)
	}
	return s
}

// playNode creates a node that reports as ready and accepts only the tests' pods.
func playNode(ctx context.Context, k *clustertest.Kubernetes) error {
	c, err := client.New(k.Config, client.Options{Scheme: scheme()})
	if err != nil {
		return err
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{
		Taints: []corev1.Taint{{Key: "example.org/played", Effect: corev1.TaintEffectNoSchedule}},
	}}
	if err := c.Create(ctx, n); err != nil {
		return err
	}
	now := metav1.NowMicro()
	patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Played", "lastHeartbeatTime": %[1]q, "lastTransitionTime": %[1]q}]}}`, now.UTC().Format(time.RFC3339))
	if err := c.Status().Patch(ctx, n, client.RawPatch(apitypes.MergePatchType, []byte(patch))); err != nil {
		return err
	}
	holder, seconds := node, int32(40)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	if err := c.Create(ctx, lease); err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(5 * time.Second): // like a kubelet
			}
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			_ = c.Update(ctx, lease)
		}
	}()
	return nil
}

// world is a namespace with a manager. The test plays its scheduler, kubelets and runners.
type world struct {
	*clustertest.Namespace
	t         *testing.T
	client    client.WithWatch // with full rights
	types     *fakeTypes
	changed   chan struct{}
	settings  atomic.Pointer[objects.Settings]
	clock     atomic.Int64  // how far time has been advanced
	ahead     time.Duration // how far the clocks of new managers are ahead
	rewriting apply.Rate
	kill      func(vm *v1.VirtualMachine, pod *corev1.Pod, user string) error // plays the runner's part
	guests    *guests                                                         // frozen for snapshots
	movers    *movers                                                         // play the runners in migrations
	drives    func(vm string) ([]v1.RunnerDrive, int64)                       // reported drives; nil: none
	earlier   bool                                                            // runners don't wait for servers
	log       logbook.Logbook
}

// fakeTypes is a TypeChecker that refuses the given types and reports arm64 as the architecture of the type arm64.
type fakeTypes struct {
	mu      sync.Mutex
	refused map[string]error
	sizes   vmspec.Sizes // that the types decide
	checks  int
}

func (c *fakeTypes) CheckType(_ context.Context, vm *v1.VirtualMachine, _ map[string]string) (Accepted, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checks++
	accepted := Accepted{Sizes: c.sizes}
	if vm.Spec.VMType.Source == "arm64" {
		accepted.Architecture = "arm64"
	}
	return accepted, c.refused[vm.Spec.VMType.Source]
}

// checked returns the number of checks.
func (c *fakeTypes) checked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checks
}

func (c *fakeTypes) decide(sizes vmspec.Sizes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes = sizes
}

func (c *fakeTypes) refuse(source string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[source] = err
}

// newWorld returns a world without a manager.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		Namespace: shared.Namespace(t), t: t, changed: make(chan struct{}),
		types: &fakeTypes{refused: map[string]error{}},
	}
	var err error
	w.client, err = client.NewWithWatch(w.Config, client.Options{Scheme: scheme()})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.log.String())
		}
	})
	settings := objects.DefaultSettings()
	settings.Version, settings.Image, settings.Trust.Bridges = "test", "vmrunner:test", []string{"br0"}
	w.settings.Store(&settings)
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "vm-runner", Namespace: w.Name}})
	return w
}

// begin returns a world with a manager.
func begin(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.manage(nil)
	return w
}

// manage starts a manager and returns a function that ends it. If via isn't nil, the manager's requests use this wire.
func (w *world) manage(via *wire) (end func()) {
	w.t.Helper()
	config := rest.CopyConfig(w.Config)
	if via != nil {
		config.Wrap(via.wrap)
	}
	vms, end := w.start(config)
	require.NoError(w.t, vms.store.Await(w.t.Context()))
	return end
}

// start starts a manager and returns a function that ends it.
func (w *world) start(config *rest.Config) (vms *Controller, end func()) {
	w.t.Helper()
	unnamed, grace := true, 2*time.Minute
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme(), Cache: cache.Options{ReaderFailOnMissingInformer: true},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: controllerconfig.Controller{SkipNameValidation: &unnamed}, GracefulShutdownTimeout: &grace,
		Logger: funcr.New(func(prefix, args string) { fmt.Fprintln(&w.log, prefix, args) }, funcr.Options{}),
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ahead, kill := w.ahead, w.kill
	guests := w.guests
	if kill == nil {
		kill = func(*v1.VirtualMachine, *corev1.Pod, string) error { return nil }
	}
	vms, err = Add(mgr, Options{
		Namespace: w.Name, Settings: func() objects.Settings { return *w.settings.Load() },
		Types: w.types, Changed: w.changed, Instance: "test", rewriting: w.rewriting,
		exempt: func(to netip.AddrPort) bool { return to.Addr().IsLoopback() },
		Kill: func(_ context.Context, vm *v1.VirtualMachine, pod *corev1.Pod, user string) error {
			return kill(vm, pod, user)
		},
		Guest: guests.of, Source: w.movers.of, Target: w.movers.of,
		Now: func() time.Time { return time.Now().Add(ahead + time.Duration(w.clock.Load())) },
	})
	require.NoError(w.t, err)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	once := sync.OnceFunc(func() {
		cancel()
		<-done // a cut connection can cause an error
	})
	w.t.Cleanup(once)
	return vms, once
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	require.NoError(w.t, w.client.Create(w.t.Context(), object))
}

// vm creates a VM in the state Running, with one disk.
func (w *world) vm(name string, edits ...func(*v1.VirtualMachine)) *v1.VirtualMachine {
	w.t.Helper()
	vm := machine(w.Name, name, edits...)
	w.create(vm)
	return vm
}

func machine(namespace, name string, edits ...func(*v1.VirtualMachine)) *v1.VirtualMachine {
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	vm.Spec.VM.State = v1.Running
	vm.Spec.VM.MaximumCPUs = new(int32(2))
	vm.Spec.VM.Accelerator = "tcg"
	vm.Spec.VM.Disks = []v1.Disk{{VolumeClaimTemplate: disk("system", "1Gi")}}
	for _, edit := range edits {
		edit(vm)
	}
	return vm
}

// get reads an object of the namespace and reports whether it exists.
func get[T client.Object](w *world, name string, into T) (T, bool) {
	w.t.Helper()
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.Name, Name: name}, into)
	if client.IgnoreNotFound(err) == nil {
		return into, err == nil
	}
	require.NoError(w.t, err)
	return into, false
}

// eventually waits until an object fulfills a condition.
func eventually[T client.Object](w *world, name string, into T, what string, is func(T) bool) T {
	w.t.Helper()
	var have T
	wait.For(w.t, name+": "+what, func() error {
		have = into.DeepCopyObject().(T)
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: w.Name, Name: name}, have); err != nil {
			return err
		}
		if is(have) {
			return nil
		}
		if vm, ok := any(have).(*v1.VirtualMachine); ok {
			return fmt.Errorf("its status is %+v", vm.Status)
		}
		return fmt.Errorf("it is %+v", have)
	})
	return have
}

// there waits until an object exists.
func there[T client.Object](w *world, name string, into T) T {
	w.t.Helper()
	return eventually(w, name, into, "is there", func(T) bool { return true })
}

// absent waits until an object is gone.
func absent[T client.Object](w *world, name string, into T) {
	w.t.Helper()
	wait.For(w.t, name+" is gone", func() error {
		if left, is := get(w, name, into.DeepCopyObject().(T)); is {
			return fmt.Errorf("it is there: %+v", left)
		}
		return nil
	})
}

// patch changes an object by a merge patch.
func (w *world) patch(object client.Object, text string) {
	w.t.Helper()
	patch := client.RawPatch(apitypes.MergePatchType, []byte(text))
	require.NoError(w.t, w.client.Patch(w.t.Context(), object, patch))
}

// condition returns the VM's condition of a type; nil if it is missing.
func condition(vm *v1.VirtualMachine, kind string) *metav1.Condition {
	return meta.FindStatusCondition(vm.Status.Conditions, kind)
}

// replicas waits until the stateful set of a VM has the desired number of replicas.
func (w *world) replicas(name string, want int32) *appsv1.StatefulSet {
	w.t.Helper()
	return eventually(w, name, &appsv1.StatefulSet{}, fmt.Sprint(want, " pods"), func(s *appsv1.StatefulSet) bool {
		return *s.Spec.Replicas == want
	})
}

// claimsOf returns the names of the claims that a pod mounts.
func claimsOf(pod *corev1.Pod) (names []string) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// phase waits until a VM has a phase and a reason.
func (w *world) phase(name string, phase v1.Phase, reason string) *v1.VirtualMachine {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualMachine{}, string(phase)+" "+reason, func(vm *v1.VirtualMachine) bool {
		return vm.Status.Phase == phase && vm.Status.Reason == reason
	})
}

// edit changes a VM.
func (w *world) edit(name string, change func(*v1.VirtualMachine)) {
	w.t.Helper()
	wait.Until(w.t, func() bool {
		vm, ok := get(w, name, &v1.VirtualMachine{})
		require.True(w.t, ok)
		change(vm)
		return w.client.Update(w.t.Context(), vm) == nil
	})
}

// set changes the manager's settings.
func (w *world) set(change func(*objects.Settings)) {
	settings := *w.settings.Load()
	change(&settings)
	w.settings.Store(&settings)
	w.look()
}

// advance advances the clock.
func (w *world) advance(by time.Duration) {
	w.clock.Add(int64(by))
	w.look()
}

// look lets the manager check all VMs.
func (w *world) look() {
	w.t.Helper()
	select {
	case w.changed <- struct{}{}:
	case <-wait.Over(w.t):
		require.Fail(w.t, "no manager")
	}
}

// events waits for an event about a VM and returns all its events with this reason.
func (w *world) events(vm, reason string) []eventsv1.Event {
	w.t.Helper()
	var found []eventsv1.Event
	wait.Until(w.t, func() bool {
		found = nil
		var list eventsv1.EventList
		if w.client.List(w.t.Context(), &list, client.InNamespace(w.Name)) != nil {
			return false
		}
		for _, e := range list.Items {
			if e.Regarding.Kind == "VirtualMachine" && e.Regarding.Name == vm && e.Reason == reason {
				found = append(found, e)
			}
		}
		return len(found) > 0
	}, "an event %s about %s", reason, vm)
	return found
}

func running(vm *v1.VirtualMachine) { vm.Spec.VM.State = v1.Running }
func stopped(vm *v1.VirtualMachine) { vm.Spec.VM.State = v1.Stopped }
