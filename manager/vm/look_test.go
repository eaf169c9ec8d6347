package vm

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// echo is a writer whose API server answers at once: what is applied is in the
// mirror, without the network, and before the answer.
type echo struct {
	client.Client // nil: what is not here is not called
	mirror        *mirror
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
		return e.mirror.pods.Update(pod.DeepCopy())
	}
	m := object.(*metadata)
	k, gvk := kindOf(m), m.GroupVersionKind()
	if err := json.Unmarshal(text, m); err != nil {
		return err
	}
	m.SetGroupVersionKind(gvk)
	m.ResourceVersion, m.UID = e.next(), apitypes.UID(e.next())
	if k == statefulSetKind {
		m.Generation++
	}
	return e.mirror.others[k].Add(m.DeepCopy())
}

func (e *echo) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	object.SetResourceVersion(e.next())
	if object.GetLabels()[objects.LabelComponent] != objects.ComponentDisplaySecret {
		return nil // an event
	}
	m := metadataOf(secretKind)
	m.Name, m.Labels, m.ResourceVersion = object.GetName(), object.GetLabels(), object.GetResourceVersion()
	return e.mirror.others[secretKind].Add(m)
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

func (e echoOfStatus) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	text, err := patch.Data(object)
	if err != nil {
		return err
	}
	vm, err := e.mirror.vms.get(object.GetName())
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, vm); err != nil {
		return err
	}
	vm.ResourceVersion = e.next()
	object.SetResourceVersion(vm.ResourceVersion)
	return e.mirror.vms.Update(vm)
}

// A look at a VM that runs, and is as it shall be: what a manager does for each VM
// when it starts, but for the VM type.
func BenchmarkLook(b *testing.B) {
	settings := objects.DefaultSettings()
	to := &echo{version: 1 << 20}
	c := newReconciler(to, nil, Options{
		Namespace: "vms", Settings: func() objects.Settings { return settings }, Now: time.Now,
		Types: &fakeTypes{refused: map[string]error{}, modules: map[string]map[string]string{}},
	})
	to.mirror = c.mirror
	vm, pod, _ := found(b, 1)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(vm)}
	look := func() {
		_, err := c.Reconcile(b.Context(), request)
		require.NoError(b, err)
	}
	fresh := vm.DeepCopy()
	fresh.Status = v1.VirtualMachineStatus{}
	require.NoError(b, c.mirror.vms.Add(fresh))
	look() // makes everything
	vm.ResourceVersion = to.next()
	require.NoError(b, c.mirror.vms.Update(vm))
	require.NoError(b, c.mirror.pods.Add(pod))
	for range 3 {
		look()
	}
	seen, err := c.mirror.vms.get(request.Name)
	require.NoError(b, err)
	require.NotEqual(b, v1.PhaseFailed, seen.Status.Phase, seen.Status.Message)
	before := to.version
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Reconcile(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
	require.Equal(b, before, to.version, "nothing is written")
}
