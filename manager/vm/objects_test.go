package vm

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
	"vmop/test/wait"
)

func reconciled(vm *v1.VirtualMachine) (metav1.ConditionStatus, string) {
	c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled)
	if c == nil {
		return "", ""
	}
	return c.Status, c.Message
}

// A type that makes no machine of a VM keeps it from starting, and a running one
// keeps running.
func TestTypeRefused(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	w.boot("web")
	w.types.refuse("standard", TypeRefused{"standard.star:3:1: no"})
	w.vm("late")
	vm := w.phase("late", v1.PhaseFailed, decide.ReasonTypeRefused)
	require.Equal(t, "standard.star:3:1: no", vm.Status.Message)
	c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionVMTypeAccepted)
	require.Equal(t, metav1.ConditionFalse, c.Status)
	require.Equal(t, "standard.star:3:1: no", c.Message)
	eventually(w, "late", &appsv1.StatefulSet{}, "no pod", func(s *appsv1.StatefulSet) bool {
		return *s.Spec.Replicas == 0
	})
	require.Len(t, w.events("late", decide.ReasonTypeRefused), 1)

	w.look()
	vm = eventually(w, "web", &v1.VirtualMachine{}, "its type is refused", func(vm *v1.VirtualMachine) bool {
		c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionVMTypeAccepted)
		return c.Status == metav1.ConditionFalse
	})
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
	set, _ := get(w, "web", &appsv1.StatefulSet{})
	require.Equal(t, int32(1), *set.Spec.Replicas)
	restart := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionRestartRequired)
	require.Equal(t, metav1.ConditionUnknown, restart.Status)
	require.Contains(t, restart.Message, "could not be started again")
	require.Len(t, w.events("web", decide.ReasonTypeRefused), 1)

	w.types.refuse("standard", nil)
	w.look()
	eventually(w, "web", &v1.VirtualMachine{}, "its type is accepted", func(vm *v1.VirtualMachine) bool {
		return meta.FindStatusCondition(vm.Status.Conditions,
			v1.ConditionVMTypeAccepted).Status == metav1.ConditionTrue &&
			meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionRestartRequired).Status == metav1.ConditionFalse
	})
	w.boot("late")
}

// The pod of a VM, and that which imports its disk, are for nodes of the guest's architecture; what is known of that
// stays while it can't be found out.
func TestArchitectureOfTheGuest(t *testing.T) {
	t.Parallel()
	w := begin(t)
	forARM := func(pod *corev1.Pod) {
		t.Helper()
		terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		require.Equal(t, []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}},
		}}}, terms)
	}
	arm := func(vm *v1.VirtualMachine) { vm.Spec.VMType.Source = "arm64" }
	w.vm("arm", arm)
	forARM(w.boot("arm"))
	status := func(what, want string, is func(*v1.VirtualMachine) bool) {
		t.Helper()
		vm := eventually(w, "arm", &v1.VirtualMachine{}, what, is)
		require.Equal(t, want, vm.Status.Architecture)
	}
	typeIs := func(want metav1.ConditionStatus) func(*v1.VirtualMachine) bool {
		return func(vm *v1.VirtualMachine) bool {
			c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionVMTypeAccepted)
			return c != nil && c.Status == want && c.ObservedGeneration == vm.Generation
		}
	}
	status("is accepted", "arm64", typeIs(metav1.ConditionTrue))
	w.types.refuse("arm64", TypeRefused{"no"})
	w.edit("arm", func(vm *v1.VirtualMachine) { vm.Spec.VM.MaximumCPUs = new(int32(3)) })
	status("is refused", "arm64", typeIs(metav1.ConditionFalse))
	set, _ := get(w, "arm", &appsv1.StatefulSet{})
	forARM(&corev1.Pod{Spec: set.Spec.Template.Spec})
	w.edit("arm", func(vm *v1.VirtualMachine) { vm.Spec.VMType.Source = "other" })
	status("has another type", "", typeIs(metav1.ConditionTrue))
	eventually(w, "arm", &appsv1.StatefulSet{}, "is for any node", func(s *appsv1.StatefulSet) bool {
		return s.Spec.Template.Spec.Affinity == nil
	})

	w.types.refuse("arm64", nil)
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: root}, spec: {"+
		"persistentVolumeClaim: {storageClassName: %q, size: 1Gi}, "+
		"dataSource: {type: HTTP, http: {url: 'https://example.org/x'}}}}", w.storage(true, false, "1Gi")))
	w.vm("imported", arm, withDisks("root"))
	forARM(eventually(w, "vd-root-import", &corev1.Pod{}, "is there", func(*corev1.Pod) bool { return true }))
}

// Custom types come from a ConfigMap. When it changes, the VMs that use it are
// looked at again, and their pods get the new files at once.
func TestCustomTypes(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", func(vm *v1.VirtualMachine) { vm.Spec.VMType = v1.VMType{Source: "mine", ConfigMap: "own"} })
	vm := w.phase("web", v1.PhaseFailed, decide.ReasonTypesMissing)
	require.Contains(t, vm.Status.Message, "spec.vmType.configMap: there is no ConfigMap own")
	w.vm("other", func(vm *v1.VirtualMachine) { vm.Spec.VMType = v1.VMType{Source: "ours"} })
	w.boot("other")
	require.Empty(t, w.types.seen("ours"))

	w.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "own", Namespace: w.Name},
		Data:       map[string]string{"mine.star": "1"},
	})
	pod := w.boot("web")
	require.Equal(t, map[string]string{"mine.star": "1"}, w.types.seen("mine"))
	w.nextSecond(pod)
	own, _ := get(w, "own", &corev1.ConfigMap{})
	own.Data["mine.star"] = "2"
	require.NoError(t, w.client.Update(t.Context(), own))
	eventually(w, pod.Name, &corev1.Pod{}, "the kubelet knows", func(p *corev1.Pod) bool {
		return p.Annotations[objects.AnnotationTypesVersion] == own.ResourceVersion
	})
	require.Equal(t, map[string]string{"mine.star": "2"}, w.types.seen("mine"))

	w.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: w.Name},
		Data:       map[string]string{"ours.star": "1"},
	})
	w.set(func(s *objects.Settings) { s.VMTypes = "all" })
	wait.Until(t, func() bool { return w.types.seen("ours")["ours.star"] == "1" })
	vm = eventually(w, "other", &v1.VirtualMachine{}, "its pod can't have them", func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.RestartAwaitingChanges) > 0
	})
	require.Equal(t, "vmType.configMap", vm.Status.RestartAwaitingChanges[0].Path)
	all, _ := get(w, "all", &corev1.ConfigMap{})
	all.Data["ours.star"] = "2"
	require.NoError(t, w.client.Update(t.Context(), all))
	wait.Until(t, func() bool { return w.types.seen("ours")["ours.star"] == "2" })
}

// The display secret is found by its labels, whoever made it.
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
	w.advance(lastRetry)
	w.boot("late")
}

// Claims that are there are used, grow, and are never made smaller.
func TestClaims(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class, block := "manual", corev1.PersistentVolumeBlock
	old := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "web-system-disk", Namespace: w.Name,
		Labels: objects.Labels(machine(w.Name, "web")),
	}}
	old.Spec = corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class,
		VolumeMode: &block,
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}
	w.create(old)
	w.vm("web")
	pod := w.boot("web")
	_, is := get(w, "system-disk-web-0", &corev1.PersistentVolumeClaim{})
	require.False(t, is, "the one of the newer original is used")
	var claims []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims = append(claims, v.PersistentVolumeClaim.ClaimName)
		}
	}
	require.ElementsMatch(t, []string{"web-system-disk", "runner-data-web-0"}, claims)

	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate = disk("system", "512Mi") })
	vm := eventually(w, "web", &v1.VirtualMachine{}, "it is reported", func(vm *v1.VirtualMachine) bool {
		status, _ := reconciled(vm)
		return status == metav1.ConditionFalse
	})
	_, message := reconciled(vm)
	require.Contains(t, message, "spec.vm.disks[0].volumeClaimTemplate.spec.resources.requests.storage: the volume stays at 1Gi")
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)

	w.create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "system-disk-late-0", Namespace: w.Name, Labels: old.Labels},
		Spec:       old.Spec,
	})
	w.vm("late")
	late := w.phase("late", v1.PhaseFailed, decide.ReasonClaim)
	require.Contains(t, late.Status.Message, "spec.vm.disks[0].volumeClaimTemplate: the claim system-disk-late-0 belongs to the VM web")
}

// What a user changes or deletes is restored.
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
	eventually(w, "web", &appsv1.StatefulSet{}, "a pod", func(s *appsv1.StatefulSet) bool {
		return *s.Spec.Replicas == 1
	})
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
	eventually(w, "web", &appsv1.StatefulSet{}, "a manager that starts sees that the pod is missing",
		func(s *appsv1.StatefulSet) bool {
			return *s.Spec.Replicas == 1
		})
}

func (w *world) scale(name string, replicas int32) {
	w.t.Helper()
	wait.Until(w.t, func() bool {
		set, _ := get(w, name, &appsv1.StatefulSet{})
		set.Spec.Replicas = &replicas
		return w.client.Update(w.t.Context(), set) == nil
	})
}

// phaseWithPod waits for a VM whose pod runs, new or old.
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

// Labels and annotations of the VM reach the pod that runs, and leave it.
func TestPodMetadata(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", func(vm *v1.VirtualMachine) {
		vm.Labels, vm.Annotations = map[string]string{"tier": "front"},
			map[string]string{"note": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
	})
	pod := w.boot("web")
	require.Equal(t, "front", pod.Labels["tier"])
	require.NotContains(t, pod.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Labels, vm.Annotations = map[string]string{"zone": "b"}, map[string]string{"note": "b"}
	})
	pod = eventually(w, pod.Name, &corev1.Pod{}, "the new ones", func(p *corev1.Pod) bool {
		return p.Labels["zone"] == "b" && p.Annotations["note"] == "b"
	})
	require.NotContains(t, pod.Labels, "tier")
	require.Equal(t, "web", pod.Labels[objects.LabelInstance])
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.Empty(t, vm.Status.RestartAwaitingChanges)
}

// What can't reach a running pod is listed, with what the runner lists.
func TestRestartRequired(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	w.say("web", pod, stateBooted, nil, v1.RestartAwaitingChange{
		Path: "vm.firmware", Operation: "replace",
		CurrentValue: &runtime.RawExtension{Raw: []byte(`{"b":1,"a":"<"}`)}, // in another order than a server writes it
		DesiredValue: &runtime.RawExtension{Raw: []byte(`"bios"`)},
	})
	restart := func(want metav1.ConditionStatus, message string) {
		t.Helper()
		eventually(w, "web", &v1.VirtualMachine{}, "RestartRequired "+message, func(vm *v1.VirtualMachine) bool {
			c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionRestartRequired)
			return c.Status == want && c.Message == message
		})
	}
	restart(metav1.ConditionTrue, "waiting for a restart: vm.firmware")
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.PriorityClassName = "system-node-critical" })
	restart(metav1.ConditionTrue, "waiting for a restart: priorityClassName, vm.firmware")
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.Len(t, vm.Status.RestartAwaitingChanges, 2)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.PriorityClassName = "" })
	restart(metav1.ConditionTrue, "waiting for a restart: vm.firmware")
	w.say("web", pod, stateBooted, nil)
	restart(metav1.ConditionFalse, "")
	vm, _ = get(w, "web", &v1.VirtualMachine{})
	require.Empty(t, vm.Status.RestartAwaitingChanges)
}

// exposed makes a VM whose screen has a service, with a label.
func (w *world) exposed(name string) *corev1.Service {
	w.t.Helper()
	w.set(func(s *objects.Settings) {
		s.LoadBalancer = &objects.ServiceMetadata{Labels: map[string]string{"a": "b"}}
	})
	w.vm(name)
	return eventually(w, name, &corev1.Service{}, "there is one", func(*corev1.Service) bool { return true })
}

// The service is there as long as it is wanted.
func TestService(t *testing.T) {
	t.Parallel()
	w := begin(t)
	service := w.exposed("web")
	require.Equal(t, "b", service.Labels["a"])
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.LoadBalancerService = &v1.LoadBalancerService{} })
	wait.Until(t, func() bool {
		_, is := get(w, "web", &corev1.Service{})
		return !is
	}, "the VM wants none")
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

// A type that was taken over at the first start is not looked for again.
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
		return meta.FindStatusCondition(vm.Status.Conditions,
			v1.ConditionVMTypeAccepted).Status == metav1.ConditionUnknown
	})
	require.Equal(t, decide.ReasonTypeKept, meta.FindStatusCondition(vm.Status.Conditions,
		v1.ConditionVMTypeAccepted).Reason)
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
}

// A kubelet that has missed a change of the configuration is made to look again, until the runner has seen it.
func TestAMissedConfigurationIsSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.manage(nil)
	w.vm("web")
	pod := w.boot("web")
	version := func(vary string) string {
		p := eventually(w, pod.Name, &corev1.Pod{}, "has "+vary, func(p *corev1.Pod) bool {
			matched, _ := regexp.MatchString("^[0-9]+"+vary+"$", p.Annotations[objects.AnnotationConfigVersion])
			return matched
		})
		return p.Annotations[objects.AnnotationConfigVersion]
	}
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.CurrentCPUs = new(int32(1)) })
	first := version("")
	require.Equal(t, first+".1", version(`\.1`))
	require.Equal(t, first+".2", version(`\.2`))
	w.say("web", pod, stateBooted, nil)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.CurrentCPUs = new(int32(2)) })
	require.NotEqual(t, first, version(""))
}
