package vm

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/manager/store"
)

// echo is a client whose API server answers at once: what is applied is in the store,
// without the network, and before the answer.
type echo struct {
	client.Client // nil: what is not here is not called
	store         *store.Store
	version       int
}

func (e *echo) next() string {
	e.version++
	return strconv.Itoa(e.version)
}

func (e *echo) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	text, err := patch.Data(object)
	if err != nil {
		return err
	}
	if pod, ok := object.(*corev1.Pod); ok {
		if err := json.Unmarshal(text, pod); err != nil {
			return err
		}
		pod.ResourceVersion = e.next()
		return e.store.Put(pod.DeepCopy())
	}
	m := object.(*objects.Metadata)
	kind := m.GroupVersionKind()
	if err := json.Unmarshal(text, m); err != nil {
		return err
	}
	m.SetGroupVersionKind(kind)
	m.ResourceVersion, m.UID = e.next(), apitypes.UID(e.next())
	if kind == objects.KindStatefulSet.Version() {
		m.Generation++
	}
	return e.store.Put(m.DeepCopy())
}

func (e *echo) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	object.SetResourceVersion(e.next())
	k := objects.KindSecret
	switch {
	case object.GetLabels()[objects.LabelComponent] == objects.ComponentDisplaySecret:
	case strings.HasPrefix(object.GetName(), "runner-data-"), strings.HasPrefix(object.GetName(), "system-disk-"):
		k = objects.KindClaim
	default:
		return nil // an event
	}
	m := objects.NewMetadata(k)
	m.Name, m.Labels, m.Annotations = object.GetName(), object.GetLabels(), object.GetAnnotations()
	m.ResourceVersion = object.GetResourceVersion()
	return e.store.Put(m)
}

func (e *echo) Status() client.SubResourceWriter { return echoOfStatus{e} }

type echoOfStatus struct{ *echo }

func (e echoOfStatus) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return nil
}

func (e echoOfStatus) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return nil
}

func (e echoOfStatus) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return nil
}

func (e echoOfStatus) Patch(_ context.Context, object client.Object, patch client.Patch,
	_ ...client.SubResourcePatchOption,
) error {
	text, err := patch.Data(object)
	if err != nil {
		return err
	}
	vm, err := e.store.VM(object.GetName())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, vm); err != nil {
		return err
	}
	vm.ResourceVersion = e.next()
	object.SetResourceVersion(vm.ResourceVersion)
	return e.store.Put(vm)
}

// BenchmarkReconcile reconciles a running VM that is as it should be: what a manager does
// for each VM when it starts, apart from evaluating the VM type.
func BenchmarkReconcile(b *testing.B) {
	settings := objects.DefaultSettings()
	to := &echo{version: 1 << 20}
	c := newReconciler(to, nil, Options{
		Namespace: "vms", Settings: func() objects.Settings { return settings }, Now: time.Now,
		Types: &fakeTypes{refused: map[string]error{}, modules: map[string]map[string]string{}},
	})
	to.store = c.store
	vm := machine("vms", "web")
	vm.UID, vm.ResourceVersion, vm.Generation, vm.CreationTimestamp = "1", to.next(), 1, metav1.Now()
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(vm)}
	once := func() {
		_, err := c.Reconcile(b.Context(), request)
		require.NoError(b, err)
	}
	require.NoError(b, c.store.Put(vm))
	once() // creates everything
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web-0", Namespace: "vms", UID: "2", ResourceVersion: to.next(),
		Labels: map[string]string{objects.LabelInstance: "web"}, CreationTimestamp: metav1.Now(),
	}}
	pod.Spec.NodeName = node
	status := runningSince(time.Now())
	status.Name, status.Ready = objects.ContainerName, true
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	require.NoError(b, c.store.Put(pod))
	started, err := c.store.VM("web")
	require.NoError(b, err)
	started.Status.Runner = &v1.RunnerStatus{PodName: "web-0", PodUID: "2", State: stateBooted}
	started.ResourceVersion = to.next()
	require.NoError(b, c.store.Put(started))
	for range 3 {
		once()
	}
	seen, err := c.store.VM("web")
	require.NoError(b, err)
	require.Equal(b, v1.PhaseRunning, seen.Status.Phase, seen.Status.Message)
	before := to.version
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
	require.Equal(b, before, to.version, "nothing is written")
}
