package controller

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/store"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
	"vmop/test/wait"
	"vmop/vmspec"
)

func reconciled(vm *v1.VirtualMachine) (metav1.ConditionStatus, string) {
	c := condition(vm, v1.ConditionReconciled)
	if c == nil {
		return "", ""
	}
	return c.Status, c.Message
}

// A type that produces no valid machine keeps a VM from starting, while a running VM keeps running.
func TestTypeRefused(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	w.boot("web")
	w.types.refuse("standard", TypeRefused{"standard.star:3:1: no"})
	w.vm("late")
	vm := w.phase("late", v1.PhaseFailed, decide.ReasonTypeRefused)
	require.Equal(t, "standard.star:3:1: no", vm.Status.Message)
	c := condition(vm, v1.ConditionVMTypeAccepted)
	require.Equal(t, metav1.ConditionFalse, c.Status)
	require.Equal(t, "standard.star:3:1: no", c.Message)
	w.replicas("late", 0)
	require.Len(t, w.events("late", decide.ReasonTypeRefused), 1)

	w.look()
	vm = eventually(w, "web", &v1.VirtualMachine{}, "its type is refused", func(vm *v1.VirtualMachine) bool {
		c := condition(vm, v1.ConditionVMTypeAccepted)
		return c.Status == metav1.ConditionFalse
	})
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
	set, _ := get(w, "web", &appsv1.StatefulSet{})
	require.Equal(t, int32(1), *set.Spec.Replicas)
	restart := condition(vm, v1.ConditionRestartRequired)
	require.Equal(t, metav1.ConditionUnknown, restart.Status)
	require.Contains(t, restart.Message, "could not be started again")
	require.Len(t, w.events("web", decide.ReasonTypeRefused), 1)

	w.types.refuse("standard", nil)
	w.look()
	eventually(w, "web", &v1.VirtualMachine{}, "its type is accepted", func(vm *v1.VirtualMachine) bool {
		return condition(vm, v1.ConditionVMTypeAccepted).Status == metav1.ConditionTrue &&
			condition(vm, v1.ConditionRestartRequired).Status == metav1.ConditionFalse
	})
	w.boot("late")
}

// What follows from a VM follows from the sizes that its type decides. A running VM keeps them until it is changed.
func TestSizesOfTheType(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.types.decide(vmspec.Sizes{MaximumCPUs: 4, CurrentCPUs: 2, MaximumRAM: 4 * vmspec.GiB})
	w.vm("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.MaximumCPUs = nil })
	pod := w.boot("web")
	request := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory]
	require.Greater(t, request.Value(), int64(3*vmspec.GiB), "4 GiB, overcommitted")
	configuration := func() string {
		config, _ := get(w, "web", &corev1.ConfigMap{})
		return config.Data["config.yaml"]
	}
	require.Regexp(t, "maximumCpus: 4\n", configuration())
	require.Regexp(t, "currentCpus: 2\n", configuration())
	sizes := func(ram string) func(*v1.VirtualMachine) bool {
		return func(vm *v1.VirtualMachine) bool {
			s := vm.Status.TypeSizes
			return s != nil && s.MaximumRAM.String() == ram && (s.MaximumCPUs != nil) == (ram == "4Gi")
		}
	}
	eventually(w, "web", &v1.VirtualMachine{}, "has the type's sizes", sizes("4Gi"))

	w.types.decide(vmspec.Sizes{MaximumRAM: 8 * vmspec.GiB})
	for range 2 { // the second check begins after the end of the first
		before := w.types.checked()
		w.look()
		wait.Until(t, func() bool { return w.types.checked() > before }, "the type is asked again")
	}
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.True(t, sizes("4Gi")(vm), "it is running")
	require.Regexp(t, "maximumCpus: 4\n", configuration())
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.BootMenu = new(true) })
	eventually(w, "web", &v1.VirtualMachine{}, "was changed", sizes("8Gi"))
	eventually(w, "web", &corev1.ConfigMap{}, "has the new sizes", func(c *corev1.ConfigMap) bool {
		return !strings.Contains(c.Data["config.yaml"], "maximumCpus: 4\n")
	})
}

// The display secret is found by its labels, regardless of its creator.
func TestDisplaySecret(t *testing.T) {
	t.Parallel()
	w := begin(t)
	vm := machine(w.Name, "web")
	mine := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: w.Name, Labels: objects.DisplaySecretLabels(vm)},
		Data:       map[string][]byte{objects.PasswordKey: []byte("x")},
	}
	w.create(mine)
	w.create(vm)
	pod := w.boot("web")
	_, is := get(w, "web-display-secret", &corev1.Secret{})
	require.False(t, is)
	w.nextSecond(pod)
	mine.Data[objects.PasswordKey] = []byte("y")
	require.NoError(t, w.client.Update(t.Context(), mine))
	eventually(w, pod.Name, &corev1.Pod{}, "the kubelet knows", func(p *corev1.Pod) bool {
		return p.Annotations[objects.AnnotationPasswordVersion] == mine.ResourceVersion
	})

	w.vm("open", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Display = &v1.Display{Spice: &v1.Spice{Port: 5900, GenerateSecret: new(false)}}
	})
	w.boot("open")
	_, is = get(w, "open-display-secret", &corev1.Secret{})
	require.False(t, is)

	theirs := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "late-display-secret", Namespace: w.Name},
		Data:       map[string][]byte{"a": []byte("b")},
	}
	w.create(theirs)
	w.vm("late")
	late := w.phase("late", v1.PhasePending, decide.ReasonNameTaken)
	require.Contains(t, late.Status.Message, "secret late-display-secret is not this VM's")
	have, _ := get(w, "late-display-secret", &corev1.Secret{})
	require.Equal(t, theirs.Data, have.Data)
	require.NoError(t, w.client.Delete(t.Context(), theirs))
	w.advance(store.LastRetry)
	w.boot("late")
}

// The manager restores objects that a user changes or deletes.
func TestDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := w.manage(nil)
	w.vm("web")
	pod := w.boot("web")
	configuration, _ := get(w, "web", &corev1.ConfigMap{})
	good := configuration.Data[objects.ConfigKey]
	configuration.Data[objects.ConfigKey] = "bad"
	require.NoError(t, w.client.Update(t.Context(), configuration))
	restored := eventually(w, "web", &corev1.ConfigMap{}, "it is as it was", func(c *corev1.ConfigMap) bool {
		return c.Data[objects.ConfigKey] == good
	})
	eventually(w, pod.Name, &corev1.Pod{}, "the kubelet knows", func(p *corev1.Pod) bool {
		return p.Annotations[objects.AnnotationConfigVersion] == restored.ResourceVersion
	})
	require.NoError(t, w.client.Delete(t.Context(), restored))
	eventually(w, "web", &corev1.ConfigMap{}, "it is there again", func(c *corev1.ConfigMap) bool {
		return c.UID != restored.UID
	})

	w.scale("web", 0)
	w.replicas("web", 1)
	if p, is := get(w, pod.Name, &corev1.Pod{}); is && p.DeletionTimestamp != nil {
		w.gone("web", pod)
	}
	w.phaseWithPod("web")
	end()
	w.scale("web", 0)
	if p := eventually(w, pod.Name, &corev1.Pod{}, "told to go", func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil
	}); p != nil {
		w.remove(p)
	}
	w.manage(nil)
	w.replicas("web", 1)
}

func (w *world) scale(name string, replicas int32) {
	w.t.Helper()
	wait.Until(w.t, func() bool {
		set, _ := get(w, name, &appsv1.StatefulSet{})
		set.Spec.Replicas = &replicas
		return w.client.Update(w.t.Context(), set) == nil
	})
}

// phaseWithPod waits until a VM is running in its old or a new pod.
func (w *world) phaseWithPod(name string) {
	w.t.Helper()
	pod := w.pod(name)
	if pod.Spec.NodeName == "" {
		w.bind(pod)
		w.report(pod, runningSince(pod.CreationTimestamp.Time))
		w.say(name, pod, stateBooted, nil)
	}
	w.phase(name, v1.PhaseRunning, "")
}

// exposed creates a VM with a service for its display, with a label.
func (w *world) exposed(name string) *corev1.Service {
	w.t.Helper()
	w.set(func(s *objects.Settings) {
		s.LoadBalancer = &objects.ServiceMetadata{Labels: map[string]string{"a": "b"}}
	})
	w.vm(name)
	return there(w, name, &corev1.Service{})
}

// The service exists as long as the definition requests it.
func TestService(t *testing.T) {
	t.Parallel()
	w := begin(t)
	service := w.exposed("web")
	require.Equal(t, "b", service.Labels["a"])
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.LoadBalancerService = &v1.LoadBalancerService{} })
	absent(w, "web", &corev1.Service{})
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.Name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
	}
	w.create(theirs)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.LoadBalancerService = nil })
	vm := eventually(w, "web", &v1.VirtualMachine{}, "the name is taken", func(vm *v1.VirtualMachine) bool {
		_, message := reconciled(vm)
		return message != ""
	})
	_, message := reconciled(vm)
	require.Contains(t, message, "Service web is not this VM's")
	w.boot("web")
	have, _ := get(w, "web", &corev1.Service{})
	require.Equal(t, theirs.ResourceVersion, have.ResourceVersion)
	require.NoError(t, w.client.Delete(t.Context(), theirs))
	eventually(w, "web", &corev1.Service{}, "there is one", func(s *corev1.Service) bool {
		return s.Labels["a"] == "b"
	})
}

// A type that was stored at the first start isn't looked up again.
func TestKeptType(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", func(vm *v1.VirtualMachine) {
		vm.Spec.VMType = v1.VMType{Source: "mine", Update: new(false)}
	})
	w.boot("web")
	w.types.refuse("mine", TypeRefused{"gone"})
	w.look()
	vm := eventually(w, "web", &v1.VirtualMachine{}, "it is not known", func(vm *v1.VirtualMachine) bool {
		return condition(vm, v1.ConditionVMTypeAccepted).Status == metav1.ConditionUnknown
	})
	require.Equal(t, decide.ReasonTypeKept, condition(vm, v1.ConditionVMTypeAccepted).Reason)
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
}
