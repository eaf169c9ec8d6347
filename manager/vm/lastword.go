package vm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
)

// lastWord says in the place of a runner that cannot speak any more that its
// machine has ended, and how, and tells whether it did. Caches may be late, and a
// new runner's word must not be overwritten: the pod is read.
func (c *reconciler) lastWord(ctx context.Context, v *visit) (bool, error) {
	pod := v.pod
	if !v.speechless(pod) {
		return false, nil
	}
	var live corev1.Pod
	err := c.live.Get(ctx, types.NamespacedName{Namespace: v.vm.Namespace, Name: podName(v.vm.Name)}, &live)
	switch {
	case apierrors.IsNotFound(err):
		pod = nil
	case err != nil:
		return false, fmt.Errorf("read pod %s: %w", podName(v.vm.Name), err)
	default:
		pod = v.neglected(&live)
	}
	if (pod == nil) != (v.pod == nil) || pod != nil && pod.UID != v.pod.UID || !v.speechless(pod) {
		v.lookAgain(v.now.Add(firstRetry))
		return false, nil
	}
	version, err := c.writeStatus(ctx, v.vm, v.vm.ResourceVersion, v.finalStatus(pod), runnerWriter)
	if apierrors.IsConflict(err) { // the runner, perhaps, has said it itself, and the cache does not know
		v.lookAgain(v.now.Add(firstRetry))
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("say in the runner's place that VM %s has ended: %w", v.vm.Name, err)
	}
	v.memory.status = version
	return true, nil
}

// speechless tells whether there is something to say in the place of the runner in
// a pod.
func (s situation) speechless(pod *corev1.Pod) bool {
	said := s.vm.Status.Runner
	speaks := said != nil && said.State != stateStopped
	switch {
	case pod == nil:
		return speaks
	case overdue(pod, s.now):
		return speaks
	}
	end := ended(pod)
	return end != nil && !end.FinishedAt.IsZero() && (speaks || said == nil || said.PodUID != pod.UID || said.Outcome == nil)
}

// finalStatus is what a runner says last.
func (s situation) finalStatus(pod *corev1.Pod) v1.VirtualMachineStatus {
	is := s.vm.Status
	said := v1.RunnerStatus{State: stateStopped, Reason: reasonVMStopped, Message: "its pod is gone"}
	holds := metav1.ConditionFalse
	if is.Runner != nil {
		said.PodName, said.PodUID = is.Runner.PodName, is.Runner.PodUID
	}
	if pod != nil {
		said.PodName, said.PodUID = pod.Name, pod.UID
		if end := ended(pod); end != nil {
			said.Outcome = testament(end)
			said.Message = cmp.Or(said.Outcome.Message, said.Outcome.Cause)
		} else { // and nobody knows more
			said.Reason, said.Message, holds = reasonNodeLost, silence(pod), metav1.ConditionUnknown
		}
	}
	final := v1.VirtualMachineStatus{Runner: &said, VMType: is.VMType, UUID: is.UUID, RAM: "0"}
	for _, name := range runnerConditions() {
		have := meta.FindStatusCondition(is.Conditions, name)
		if have == nil {
			continue // it was never said
		}
		final.Conditions = append(final.Conditions, conditionFrom(have, metav1.Condition{
			Type: name, Status: holds, Reason: said.Reason, Message: said.Message, ObservedGeneration: have.ObservedGeneration,
		}, s.now))
	}
	return final
}

// runnerConditions are those that hold while a machine runs. ConfigApplied and
// TPMLost are not said of one that doesn't.
func runnerConditions() []string {
	return []string{
		v1.ConditionReady, v1.ConditionRunning, v1.ConditionBooted, v1.ConditionVmopAgent,
		v1.ConditionUserLoggedIn, v1.ConditionConsoleConnected,
	}
}

// writeStatus applies a part of a VM's status, and returns the version that it has
// then. With a version it is a conflict if the VM has another one.
func (c *reconciler) writeStatus(ctx context.Context, vm *v1.VirtualMachine, version string, status any, writer client.FieldOwner) (uint64, error) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": v1.GroupVersion().String(), "kind": "VirtualMachine",
		"metadata": metav1.ObjectMeta{Name: vm.Name, Namespace: vm.Namespace, UID: vm.UID, ResourceVersion: version},
		"status":   status,
	})
	if err != nil {
		return 0, err
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualMachine"))
	object.Name, object.Namespace = vm.Name, vm.Namespace
	err = c.client.Status().Patch(ctx, object, client.RawPatch(types.ApplyPatchType, text), writer, client.ForceOwnership)
	return versionOf(object), err
}
