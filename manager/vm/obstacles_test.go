package vm

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
	"vmop/manager/operation"
	"vmop/manager/publish"
	"vmop/test/wait"
)

// What keeps a pod from its start is reported, in the words of scheduler or kubelet.
func TestObstacles(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	vm := eventually(w, "web", &v1.VirtualMachine{}, "no node", func(vm *v1.VirtualMachine) bool {
		return vm.Status.Phase == v1.PhasePending && (vm.Status.Reason == decide.ReasonUnschedulable ||
			vm.Status.Reason == decide.ReasonClaimPending)
	})
	require.Contains(t, vm.Status.Message, "0/1 nodes are available", "what the scheduler says")
	pod := w.pod("web")
	w.bind(pod)
	vm = w.phase("web", v1.PhaseStarting, decide.ReasonPodStarting)
	require.Equal(t, node, vm.Status.NodeName)
	w.report(pod, waitingFor("ImagePullBackOff", "Back-off pulling vmrunner:test"))
	vm = w.phase("web", v1.PhasePending, decide.ReasonImagePull)
	require.Equal(t, "ImagePullBackOff: Back-off pulling vmrunner:test; it is set by image.source of the manager's configuration, or VMOP_RUNNER_IMAGE of its Deployment", vm.Status.Message)
	w.report(pod, waitingFor("CreateContainerConfigError", "no such secret"))
	w.phase("web", v1.PhasePending, decide.ReasonContainer)
	w.report(pod, runningSince(time.Now()))
	w.phase("web", v1.PhaseStarting, decide.ReasonPodStarting)
}

// A pod that can't be started is no reason to wait when its definition changes: the
// VM is tried at once in another one, without anybody's deleting the first.
func TestRepairedBeforeItsStart(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	first := w.pod("web")
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.CurrentCPUs = new(int32(1)) })
	second := eventually(w, "web-0", &corev1.Pod{}, "another pod", func(p *corev1.Pod) bool {
		return p.UID != first.UID
	})
	w.bind(second)
	w.report(second, waitingFor("ContainerCreating", ""))
	w.phase("web", v1.PhaseStarting, decide.ReasonPodStarting)
	w.report(second, waitingFor("ImagePullBackOff", "Back-off pulling vmrunner:test"))
	w.phase("web", v1.PhasePending, decide.ReasonImagePull)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.Image = &v1.Image{Source: "example.test/right"} })
	eventually(w, "web-0", &corev1.Pod{}, "it goes", func(p *corev1.Pod) bool {
		return p.UID == second.UID && decide.Terminating(p)
	})
	w.remove(second)
	third := eventually(w, "web-0", &corev1.Pod{}, "another pod", func(p *corev1.Pod) bool {
		return p.UID != second.UID
	})
	require.Equal(t, "example.test/right", third.Spec.Containers[0].Image)
	vm := eventually(w, "web", &v1.VirtualMachine{}, "told of", func(vm *v1.VirtualMachine) bool {
		return vm.Status.ObservedGeneration == vm.Generation && vm.Status.Phase == v1.PhasePending &&
			len(w.events("web", "Restarting")) == 2
	})
	require.Empty(t, vm.Status.RestartAwaitingChanges)
	require.Equal(t, metav1.ConditionFalse, meta.FindStatusCondition(vm.Status.Conditions,
		v1.ConditionRestartRequired).Status)
}

// A node that doesn't exist is reported, and no pod after pod is made for it.
func TestNoSuchNode(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", func(vm *v1.VirtualMachine) { vm.Spec.NodeName = "ghost" })
	pod := w.pod("web")
	require.Equal(t, "ghost", pod.Spec.NodeName)
	told := w.phase("web", v1.PhaseStarting, decide.ReasonPodStarting)
	require.Contains(t, told.Status.Message, "node ghost (spec.nodeName) has not acknowledged the pod yet")
	w.advance(acknowledgeTime)
	vm := w.phase("web", v1.PhaseFailed, decide.ReasonNodeMissing)
	require.Contains(t, vm.Status.Message, "node ghost (spec.nodeName) has not acknowledged pod web-0: check that the node exists and that its kubelet is running; failed starts in a row: 1, next attempt at ")
	require.Equal(t, int32(1), vm.Status.Failures.Count)
	eventually(w, "web", &appsv1.StatefulSet{}, "no replicas", func(s *appsv1.StatefulSet) bool {
		return *s.Spec.Replicas == 0
	})
	require.Equal(t, decide.ByUser, w.events("web", decide.ReasonNodeMissing)[0].Labels[publish.LabelInitiator])
	w.remove(pod)
	eventually(w, "web", &v1.VirtualMachine{}, "no pod is", func(vm *v1.VirtualMachine) bool {
		return vm.Status.NodeName == ""
	})
	w.look()
	w.phase("web", v1.PhaseFailed, decide.ReasonNodeMissing)
	_, is := get(w, "web-0", &corev1.Pod{})
	require.False(t, is)

	w.advance(-acknowledgeTime)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.NodeName = node })
	second := w.pod("web")
	require.Equal(t, node, second.Spec.NodeName)
	w.report(second, runningSince(time.Now()))
	w.say("web", second, stateBooted, nil)
	w.phase("web", v1.PhaseRunning, "")
}

// A pod that is not removed is waited for, and the status says so.
func TestOldPod(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.PowerdownTimeout = new(int32(0))
	})
	pod := w.boot("web")
	now := int64(1)
	require.NoError(t, w.client.Delete(t.Context(), pod.DeepCopy(), &client.DeleteOptions{GracePeriodSeconds: &now}))
	w.phase("web", v1.PhaseStopping, decide.ReasonPodDeleted)
	w.advance(deletionReserve + time.Minute)
	vm := eventually(w, "web", &v1.VirtualMachine{}, "the node is silent", func(vm *v1.VirtualMachine) bool {
		return vm.Status.Phase == v1.PhasePending && vm.Status.Reason == decide.ReasonNodeLost &&
			vm.Status.Runner.State == stateStopped
	})
	require.Contains(t, vm.Status.Message, "kubectl delete pod web-0 --force")
	require.Equal(t, metav1.ConditionUnknown, meta.FindStatusCondition(vm.Status.Conditions,
		v1.ConditionRunning).Status, "it is not known")
	require.Len(t, w.events("web", decide.ReasonNodeLost), 1)
	require.Equal(t, decide.ByNode, w.events("web", decide.ReasonNodeLost)[0].Labels[publish.LabelInitiator])
	w.remove(pod)
	w.boot("web")
}

// A pod that is deleted again with a shorter grace period stays as long as its kubelet lets it:
// its node isn't lost, and its guest may run.
func TestShorterGracePeriod(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	for _, grace := range []*int64{nil, new(int64(1))} {
		options := &client.DeleteOptions{GracePeriodSeconds: grace}
		require.NoError(t, w.client.Delete(t.Context(), pod.DeepCopy(), options))
	}
	w.phase("web", v1.PhaseStopping, decide.ReasonPodDeleted)
	w.advance(deletionReserve + time.Minute)
	vm := eventually(w, "web", &v1.VirtualMachine{}, "it says how to end it", func(vm *v1.VirtualMachine) bool {
		return strings.Contains(vm.Status.Message, "kubectl exec web-0 -- vmrunner stop --force")
	})
	require.Equal(t, v1.PhaseStopping, vm.Status.Phase)
	require.Equal(t, stateBooted, vm.Status.Runner.State, "its guest is not taken for dead")
	w.advance(935 * time.Second)
	w.phase("web", v1.PhasePending, decide.ReasonNodeLost)
}

// A pod with the VM's labels that is not its own, such as one of the original
// system, may have its disks.
func TestStray(t *testing.T) {
	t.Parallel()
	w := begin(t)
	vm := machine(w.Name, "web")
	stray := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.Name, Labels: objects.Labels(vm)}}
	stray.Spec.Containers = []corev1.Container{{Name: "web", Image: "old"}}
	w.create(stray)
	w.create(vm)
	got := w.phase("web", v1.PhasePending, decide.ReasonWaitingForOldPod)
	require.Contains(t, got.Status.Message, "pod web has this VM's label but is not from its StatefulSet")
	require.Len(t, w.events("web", decide.ReasonWaitingForOldPod), 1)
	w.remove(stray)
	w.boot("web")
}

// A VM that is deleted takes everything with it but its disks, whenever it is.
func TestFault41TheVMIsDeleted(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("starts")
	w.bind(w.pod("starts"))
	w.vm("runs")
	w.boot("runs")
	w.vm("stops")
	w.boot("stops")
	w.edit("stops", stopped)
	for _, name := range []string{"starts", "runs", "stops"} {
		vm, _ := get(w, name, &v1.VirtualMachine{})
		require.NoError(t, w.client.Delete(t.Context(), vm))
	}
	for _, name := range []string{"starts", "runs", "stops"} {
		pod := eventually(w, name+"-0", &corev1.Pod{}, "asked to go, gracefully", func(p *corev1.Pod) bool {
			return p.DeletionTimestamp != nil
		})
		require.Equal(t, int64(935), *pod.DeletionGracePeriodSeconds)
		w.remove(pod)
		wait.Until(t, func() bool {
			_, set := get(w, name, &appsv1.StatefulSet{})
			_, configuration := get(w, name, &corev1.ConfigMap{})
			_, secret := get(w, name+"-display-secret", &corev1.Secret{})
			return !set && !configuration && !secret
		})
		for _, claim := range []string{"runner-data-" + name + "-0", "system-disk-" + name + "-0"} {
			_, is := get(w, claim, &corev1.PersistentVolumeClaim{})
			require.True(t, is, claim)
		}
	}
	// One that something else holds says what it is.
	vm := w.vm("slow", func(vm *v1.VirtualMachine) { vm.Finalizers = []string{"example.com/hold"} })
	pod := w.boot("slow")
	require.NoError(t, w.client.Delete(t.Context(), vm))
	held := w.phase("slow", v1.PhaseTerminating, decide.ReasonDeleted)
	require.Equal(t, "the VM is being deleted; it stays, with its guest running, until these finalizers are removed: example.com/hold", held.Status.Message)
	require.NoError(t, w.client.Patch(t.Context(), vm,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))))
	w.removeWhenTold(pod)
	wait.Until(t, func() bool { _, is := get(w, "slow", &v1.VirtualMachine{}); return !is })
}

// Deleting a VM and waiting for its objects (--cascade=foreground) waits for its guest,
// too.
func TestDeletionWaitsForTheGuest(t *testing.T) {
	t.Parallel()
	w := begin(t)
	vm := w.vm("web")
	pod := w.boot("web")
	require.NoError(t, w.client.Delete(t.Context(), vm, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	eventually(w, pod.Name, &corev1.Pod{}, "asked to go", func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil
	})
	w.phase("web", v1.PhaseTerminating, decide.ReasonDeleted)
	w.gone("web", pod)
	wait.Until(t, func() bool { _, is := get(w, "web", &v1.VirtualMachine{}); return !is })
}

// A VM that is deleted without what it has leaves its guest running, and one of
// the same name takes all of it over.
func TestOrphanAndAdoption(t *testing.T) {
	t.Parallel()
	w := begin(t)
	vm := w.vm("web")
	pod := w.boot("web")
	orphan := metav1.DeletePropagationOrphan
	require.NoError(t, w.client.Delete(t.Context(), vm, &client.DeleteOptions{PropagationPolicy: &orphan}))
	wait.Until(t, func() bool { _, is := get(w, "web", &v1.VirtualMachine{}); return !is })
	set := eventually(w, "web", &appsv1.StatefulSet{}, "it has no owner", func(s *appsv1.StatefulSet) bool {
		return len(s.OwnerReferences) == 0
	})
	again := w.vm("web")
	w.say("web", pod, stateBooted, nil)
	w.phase("web", v1.PhaseRunning, "")
	adopted := eventually(w, "web", &appsv1.StatefulSet{}, "it is the new one's", func(s *appsv1.StatefulSet) bool {
		return metav1.GetControllerOf(s) != nil && metav1.GetControllerOf(s).UID == again.UID
	})
	require.Equal(t, set.UID, adopted.UID)
	eventually(w, "web", &corev1.ConfigMap{}, "it is the new one's", func(c *corev1.ConfigMap) bool {
		return metav1.GetControllerOf(c) != nil && metav1.GetControllerOf(c).UID == again.UID
	})

	require.NoError(t, w.client.Delete(t.Context(), adopted, &client.DeleteOptions{PropagationPolicy: &orphan}))
	eventually(w, "web", &appsv1.StatefulSet{}, "there is another one", func(s *appsv1.StatefulSet) bool {
		return s.UID != set.UID
	})
	same := eventually(w, "web-0", &corev1.Pod{}, "it is adopted", func(p *corev1.Pod) bool {
		return metav1.GetControllerOf(p) != nil
	})
	require.Equal(t, pod.UID, same.UID)
	require.Nil(t, same.DeletionTimestamp)
}

// The record of what was done with a VM outlives it, nothing of it is done again, and a VM of the same name
// obeys new requests.
func TestOrphanKeepsItsOperations(t *testing.T) {
	t.Parallel()
	w := begin(t)
	vm := w.vm("web", stopped)
	w.phase("web", v1.PhaseStopped, "Stopped")
	w.request("start", "Start")
	pod := w.boot("web")
	done := w.is("start", v1.OperationCompleted, operation.ReasonCompleted)
	orphan := metav1.DeletePropagationOrphan
	require.NoError(t, w.client.Delete(t.Context(), vm, &client.DeleteOptions{PropagationPolicy: &orphan}))
	wait.Until(t, func() bool { _, is := get(w, "web", &v1.VirtualMachine{}); return !is })
	w.request("nothing", "Stop")
	eventually(w, "nothing", &v1.VirtualMachineOperation{}, "Failed", func(o *v1.VirtualMachineOperation) bool {
		// the manager may still know of a VM that is being deleted
		known := []string{operation.ReasonNotFound, operation.ReasonNotApplicableForPhase}
		return o.Status.Phase == v1.OperationFailed && slices.Contains(known, o.Status.Reason)
	})

	w.vm("web")
	w.say("web", pod, stateBooted, nil)
	w.phase("web", v1.PhaseRunning, "")
	w.request("stop", "Stop")
	w.removeWhenTold(pod)
	w.is("stop", v1.OperationCompleted, operation.ReasonCompleted)
	now, is := get(w, "start", &v1.VirtualMachineOperation{})
	require.True(t, is)
	require.Equal(t, done.Status, now.Status)
}

// A VM is deleted and made again at once: it waits until the first one's pod is
// gone.
func TestSameNameAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := w.manage(nil)
	vm := w.vm("web")
	pod := w.boot("web")
	end()
	finalizers := func(names ...string) { // of the stateful set, which its controller changes, too
		t.Helper()
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			set, _ := get(w, "web", &appsv1.StatefulSet{})
			set.Finalizers = names
			return w.client.Update(t.Context(), set)
		}))
	}
	finalizers("test.example.org/slow") // so that the second VM meets it
	require.NoError(t, w.client.Delete(t.Context(), vm))
	w.vm("web")
	w.manage(nil)
	eventually(w, "web", &v1.VirtualMachine{}, "it waits", func(vm *v1.VirtualMachine) bool {
		_, message := reconciled(vm)
		return message == "StatefulSet web belongs to a VM of the same name that was deleted: waiting until it is gone"
	})
	finalizers()
	w.removeWhenTold(pod)
	require.NotEqual(t, pod.UID, w.boot("web").UID)
}

// Objects that aren't the VM's are not touched.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	w := begin(t)
	theirs := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.Name},
		Data:       map[string]string{"a": "b"},
	}
	w.create(theirs)
	w.vm("web")
	vm := w.phase("web", v1.PhaseFailed, decide.ReasonNameTaken)
	require.Contains(t, vm.Status.Message, "ConfigMap web is not this VM's")
	status, _ := reconciled(vm)
	require.Equal(t, metav1.ConditionFalse, status)
	have, _ := get(w, "web", &corev1.ConfigMap{})
	require.Equal(t, theirs.ResourceVersion, have.ResourceVersion)
	require.NoError(t, w.client.Delete(t.Context(), theirs))
	w.boot("web")

	labels := map[string]string{"app": "db"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: w.Name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "db", Image: "db"}}
	w.create(set)
	w.vm("db")
	eventually(w, "db", &v1.VirtualMachine{}, "the name is taken", func(vm *v1.VirtualMachine) bool {
		_, message := reconciled(vm)
		return message != ""
	})
	got, _ := get(w, "db", &appsv1.StatefulSet{})
	require.Equal(t, int64(1), got.Generation)
	require.Equal(t, v1.PhaseFailed, w.phase("db", v1.PhaseFailed, decide.ReasonNameTaken).Status.Phase)
}

// VMs that can't be reconciled don't keep others from running.
func TestBrokenVMs(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.types.panics("wild")
	w.vm("wild", func(vm *v1.VirtualMachine) { vm.Spec.VMType.Source = "wild" })
	w.vm("refused", func(vm *v1.VirtualMachine) {
		vm.Spec.Affinity = &v1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{
					{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Sometimes"}}},
				},
			}},
		}
	})
	w.vm("greedy", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(
			"-1")
	})
	refused := w.phase("refused", v1.PhaseFailed, decide.ReasonRefused)
	require.Contains(t, refused.Status.Message, "spec.template.spec.affinity.nodeAffinity", "where it is wrong")
	greedy := w.phase("greedy", v1.PhaseFailed, decide.ReasonRefused)
	require.Contains(t, greedy.Status.Message, "spec.resources")
	w.vm("good")
	w.boot("good")
	require.Contains(t, w.phase("wild", v1.PhasePending, decide.ReasonRetrying).Status.Message, "panic: hostile")
	require.Contains(t, w.log.String(), "panic")
	w.edit("refused", func(vm *v1.VirtualMachine) { vm.Spec.Affinity = nil })
	w.boot("refused")
}

func (c *fakeTypes) panics(source string) {
	c.refuse(source, panics{})
}

// panics is an error that whoever reads it regrets.
type panics struct{ context.Context }

func (panics) Error() string { panic("hostile") }
