package operation

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// A Signal contains the changes that give an operation its effect, in this order. Sending a part again has no further
// effect.
type Signal struct {
	// Patch is the patch of the VM; nil if the VM stays as it is. The API server refuses it if the VM has been replaced
	// by another VM with the same name.
	Patch     []byte
	PatchType types.PatchType
	// DeletePod is the UID of the pod to delete; "" if no pod is deleted. AtOnce skips the shutdown of the guest.
	DeletePod types.UID
	AtOnce    bool
}

// SignalOf returns the signal of the active operation. The operation's status must contain its target.
func SignalOf(o *v1.VirtualMachineOperation, vm *v1.VirtualMachine, pod *corev1.Pod) (s Signal, err error) {
	if isMove(o.Spec.Type) {
		return s, nil // package migration does the rest
	}
	s.AtOnce = o.Spec.Force
	target := o.Status.Target
	var state v1.State
	switch o.Spec.Type {
	case v1.OperationStart, v1.OperationReset:
		state = v1.Running
		if target.ResetCounter != nil {
			s.PatchType = types.JSONPatchType
			s.Patch, err = resetCounterPatch(vm, *target.ResetCounter)
			return s, err
		}
	case v1.OperationStop:
		state = v1.Stopped
		if s.AtOnce && pod != nil {
			s.DeletePod = pod.UID // any pod of the VM must go
		}
	case v1.OperationRestart:
		state = v1.Running
		if pod != nil && pod.UID == target.PodUID {
			s.DeletePod = pod.UID
		}
	}
	if vm.Spec.DesiredState() == state || vm.DeletionTimestamp != nil {
		return s, nil
	}
	s.PatchType = types.MergePatchType
	s.Patch, err = encodePatch(vm, map[string]any{
		"metadata": map[string]any{"uid": vm.UID}, "spec": map[string]any{"vm": map[string]any{"state": state}},
	})
	return s, err
}

// resetCounterPatch returns the patch that sets spec.resetCounter to a value; nil if the counter has reached it. The
// API server refuses the patch if the spec has changed since the value was computed.
func resetCounterPatch(vm *v1.VirtualMachine, value int64) ([]byte, error) {
	if vm.Spec.ResetCounter != nil && *vm.Spec.ResetCounter >= value {
		return nil, nil
	}
	return encodePatch(vm, []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": vm.UID},
		{"op": "test", "path": "/metadata/generation", "value": vm.Generation},
		{"op": "add", "path": "/spec/resetCounter", "value": value},
	})
}

// targetOf returns the target of a new operation. It includes the next reset counter for Reset, and also for Start if
// the VM should already run: any change of its spec restarts a failed VM immediately.
func targetOf(o v1.VirtualMachineOperationSpec, vm *v1.VirtualMachine, pod *corev1.Pod) *v1.OperationTarget {
	target := &v1.OperationTarget{VirtualMachineUID: vm.UID}
	if pod != nil {
		target.PodUID = pod.UID
	}
	if o.Type == v1.OperationReset || o.Type == v1.OperationStart && isToRun(vm) {
		next := int64(1)
		if vm.Spec.ResetCounter != nil {
			next = *vm.Spec.ResetCounter + 1
		}
		target.ResetCounter = &next
	}
	return target
}

func encodePatch(vm *v1.VirtualMachine, patch any) ([]byte, error) {
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("change VM %s: %w", vm.Name, err)
	}
	return text, nil
}
