// Package act describes what users want of a VM of a cluster as changes of its resource: what
// a page and a command line do alike. It sends nothing.
//
//	patch, err := act.State(vm, v1.Running)    // types.MergePatchType
//	patch, err := act.Size(vm, cpus, ram)      // types.MergePatchType
//	patch, err := act.Medium(vm, 1, "cd.iso")  // types.JSONPatchType
//	err := act.CanRestart(vm)                  // then delete the pod, with its uid as a precondition
//
// A patch is refused by the API server if the VM is another one of the same name by now.
package act

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A Refusal is why something can't be done now: a text for the user.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// State returns the patch that sets whether a VM is to run. One that is to run already and has
// failed is tried again at once after any change of its definition: as a running one is reset, by its
// counter. Should it be running by now, the patch is refused, because the VM has changed. It is a
// Refusal if the VM's run policy leaves no choice.
func State(vm *v1.VirtualMachine, state v1.State) ([]byte, error) {
	again := state == v1.Running && vm.Spec.DesiredState() == v1.Running && vm.Status.Phase == v1.PhaseFailed
	switch {
	case !again && !vm.Spec.StateIsFree():
		return nil, Refusal(fmt.Sprintf("spec.runPolicy is %s: the VM can't be set to %s before it is %s or %s",
			vm.Spec.RunPolicy, state, v1.AlwaysOnUnlessStoppedManually, v1.Manual))
	case !again:
		return Spec(vm, map[string]any{"vm": map[string]any{"state": state}})
	}
	return encode(vm, map[string]any{
		"metadata": map[string]any{"uid": vm.UID, "resourceVersion": vm.ResourceVersion},
		"spec":     map[string]any{"resetCounter": nextReset(vm)},
	})
}

// Reset returns the patch that presses the reset button.
func Reset(vm *v1.VirtualMachine) ([]byte, error) {
	return Spec(vm, map[string]any{"resetCounter": nextReset(vm)})
}

func nextReset(vm *v1.VirtualMachine) int64 {
	if vm.Spec.ResetCounter == nil {
		return 1
	}
	return *vm.Spec.ResetCounter + 1
}

// Size returns the patch that gives a guest other CPUs and RAM, a quantity such as 2Gi. Nil and
// "" leave a value as it is.
func Size(vm *v1.VirtualMachine, cpus *int64, ram string) ([]byte, error) {
	machine := map[string]any{}
	if cpus != nil {
		machine["currentCpus"] = *cpus
	}
	if ram != "" {
		machine["currentRam"] = ram
	}
	return Spec(vm, map[string]any{"vm": machine})
}

// Drives returns the places of the CD drives in spec.vm.disks.
func Drives(vm *v1.VirtualMachine) (places []int) {
	for i, disk := range vm.Spec.VM.Disks {
		if disk.CDROM != nil {
			places = append(places, i)
		}
	}
	return places
}

// Medium returns the patch that changes the medium in a CD drive, by its place in spec.vm.disks;
// "" ejects. It is refused if the medium was changed meanwhile.
func Medium(vm *v1.VirtualMachine, disk int, medium string) ([]byte, error) {
	disks := vm.Spec.VM.Disks
	if disk < 0 || disk >= len(disks) || disks[disk].CDROM == nil {
		return nil, Refusal(fmt.Sprintf("spec.vm.disks[%d] is no CD drive", disk))
	}
	path := fmt.Sprintf("/spec/vm/disks/%d/cdrom/image", disk)
	return encode(vm, []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": vm.UID},
		{"op": "test", "path": path, "value": disks[disk].CDROM.Image},
		{"op": "replace", "path": path, "value": medium},
	})
}

// Port returns the patch by which a port of a VM's pod leads to the same port of the guest; nil
// if it does already. It is a Refusal if no network of the VM has ports of the pod, and
// beside a tap; see docs/decisions/0073-addresses.md.
func Port(vm *v1.VirtualMachine, port int32, protocol corev1.Protocol) ([]byte, error) {
	networks := vm.Spec.VM.Networks
	if slices.ContainsFunc(networks, func(n v1.Network) bool { return n.Tap != nil }) {
		return nil, Refusal("the VM is on a bridge, and its pod has the node's address: a Service that selects the pod " +
			"would lead to the node; write an EndpointSlice with the guest's address " +
			"(docs/networking.md#a-service-for-a-guest-on-a-bridge)")
	}
	if slices.ContainsFunc(networks, func(n v1.Network) bool { return n.Masquerade != nil }) {
		return nil, nil // all ports lead to the guest
	}
	i := slices.IndexFunc(networks, func(n v1.Network) bool { return n.User != nil })
	if i < 0 {
		return nil, Refusal("no port of the pod leads to the guest: the VM has neither a user nor a masquerade network")
	}
	ports := networks[i].User.Ports
	if slices.ContainsFunc(ports, func(p v1.Port) bool { return p.Port == port && p.Protocol == protocol }) {
		return nil, nil
	}
	path, value := fmt.Sprintf("/spec/vm/networks/%d/user/ports", i), any(v1.Port{Port: port, Protocol: protocol})
	if len(ports) > 0 {
		path += "/-"
	} else {
		value = []any{value}
	}
	return encode(vm, []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": vm.UID},
		{"op": "add", "path": path, "value": value},
	})
}

// CanRestart returns why a VM can't be restarted, or nil. To restart it, its pod is deleted: the
// runner asks the guest to shut down, and the StatefulSet makes a pod of the present definition,
// with all pending changes, whatever becomes of who has deleted it.
func CanRestart(vm *v1.VirtualMachine) error {
	c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionVMTypeAccepted)
	if c != nil && c.Status == metav1.ConditionFalse {
		return Refusal("the VM could not be started again: " + c.Message)
	}
	return nil
}

// Spec returns the patch that changes fields of a VM's definition.
func Spec(vm *v1.VirtualMachine, spec map[string]any) ([]byte, error) {
	return encode(vm, map[string]any{"metadata": map[string]any{"uid": vm.UID}, "spec": spec})
}

func encode(vm *v1.VirtualMachine, patch any) ([]byte, error) {
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("change VM %s: %w", vm.Name, err)
	}
	return text, nil
}
