package controller

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/addresses"
	"vmop/manager/operation"
	"vmop/manager/vm/decide"
	"vmop/test/wait"
)

// If a VM's pod can't start, a change of the definition replaces the pod immediately, without help from a user.
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
	require.Equal(t, metav1.ConditionFalse, condition(vm, v1.ConditionRestartRequired).Status)
}

// Deleting a VM at any time deletes all its objects except for its disks.
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
	// The status of a VM that is being deleted names the finalizers that hold it.
	vm := w.vm("slow", func(vm *v1.VirtualMachine) { vm.Finalizers = []string{"example.com/hold"} })
	pod := w.boot("slow")
	require.NoError(t, w.client.Delete(t.Context(), vm))
	held := w.phase("slow", v1.PhaseTerminating, decide.ReasonDeleted)
	require.Equal(t, "the VM is being deleted; it stays, with its guest running, until these finalizers are removed: example.com/hold", held.Status.Message)
	w.patch(vm, `{"metadata": {"finalizers": null}}`)
	w.removeWhenTold(pod)
	absent(w, "slow", &v1.VirtualMachine{})
}

// Deleting a VM with --cascade=foreground also waits for its guest.
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
	absent(w, "web", &v1.VirtualMachine{})
}

func (w *world) secret(name string, of corev1.SecretType, data map[string]string) {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Name}, Type: of, StringData: data,
	})
}

func provisioned(by v1.Provisioning) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) { vm.Spec.Provisioning = &by }
}

// A VM deleted with --cascade=orphan leaves its guest running, with its address and the files of its Secret. A new VM
// of the same name takes over all objects except for the user's Secret. Earlier requests aren't repeated, and new
// requests are carried out.
func TestOrphanAndAdoption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ranges(addresses.Range{CIDR: "10.66.77.0/29"})
	w.manage(nil)
	w.secret("script", v1.SecretTypeCloudInit, map[string]string{"userData": "#!/bin/sh\n"})
	ref := &v1.SecretRef{Kind: "Secret", Name: "script"}
	scripted := provisioned(v1.Provisioning{Type: v1.ProvisioningUserDataRef, UserDataRef: ref})
	vm := w.vm("web", onTap(""), scripted, stopped)
	w.phase("web", v1.PhaseStopped, "Stopped")
	w.request("start", "Start")
	pod := w.boot("web")
	done := w.is("start", v1.OperationCompleted, operation.ReasonCompleted)
	name := addresses.AutomaticName(w.Name, "web")
	address := w.attached("web", name)
	orphan := client.PropagationPolicy(metav1.DeletePropagationOrphan)
	require.NoError(t, w.client.Delete(t.Context(), vm, orphan))
	absent(w, "web", &v1.VirtualMachine{})
	set := eventually(w, "web", &appsv1.StatefulSet{}, "it has no owner", func(s *appsv1.StatefulSet) bool {
		return len(s.OwnerReferences) == 0
	})
	again := w.vm("web", onTap(""), scripted)
	w.say("web", pod, stateBooted, nil)
	w.phase("web", v1.PhaseRunning, "")
	adopted := eventually(w, "web", &appsv1.StatefulSet{}, "it is the new one's", func(s *appsv1.StatefulSet) bool {
		return metav1.GetControllerOf(s) != nil && metav1.GetControllerOf(s).UID == again.UID
	})
	require.Equal(t, set.UID, adopted.UID)
	require.Equal(t, pod.Spec.Volumes[0].Projected.Sources, adopted.Spec.Template.Spec.Volumes[0].Projected.Sources)
	eventually(w, "web", &corev1.ConfigMap{}, "it is the new one's", func(c *corev1.ConfigMap) bool {
		return metav1.GetControllerOf(c) != nil && metav1.GetControllerOf(c).UID == again.UID
	})
	require.Equal(t, address, w.attached("web", name))
	require.Empty(t, there(w, "script", &corev1.Secret{}).OwnerReferences)
	require.Equal(t, done.Status, there(w, "start", &v1.VirtualMachineOperation{}).Status)

	require.NoError(t, w.client.Delete(t.Context(), adopted, orphan))
	eventually(w, "web", &appsv1.StatefulSet{}, "there is another one", func(s *appsv1.StatefulSet) bool {
		return s.UID != set.UID
	})
	same := eventually(w, "web-0", &corev1.Pod{}, "it is adopted", func(p *corev1.Pod) bool {
		return metav1.GetControllerOf(p) != nil
	})
	require.Equal(t, pod.UID, same.UID)
	require.Nil(t, same.DeletionTimestamp)
	w.request("stop", "Stop")
	w.removeWhenTold(pod)
	w.is("stop", v1.OperationCompleted, operation.ReasonCompleted)
}

// Objects with a needed name that don't belong to the VM stay unchanged.
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
}

// VMs that can't be reconciled don't keep other VMs from running.
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

// panics is an error that panics when it is read.
type panics struct{ context.Context }

func (panics) Error() string { panic("hostile") }
