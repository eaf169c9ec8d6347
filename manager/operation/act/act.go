// Package act translates user actions on a cluster VM into operations and patches of its resource. The web interface
// and the command line share it. It sends nothing itself.
//
//	o := act.NewOperation(namespace, "alice", v1.VirtualMachineOperationSpec{Type: v1.OperationStart, …})
//	patch, err := act.Size(vm, cpus, ram)      // types.MergePatchType
//	patch, err := act.Medium(vm, 1, "cd.iso")  // types.JSONPatchType
//
// The API server refuses a patch if the VM has been replaced by another VM with the same name.
package act

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// A Refusal is a message to the user about why an action is not possible now.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// NewOperation returns an operation on a VM. user is the requesting user; "" if unknown. The API server generates its
// name.
func NewOperation(namespace, user string, spec v1.VirtualMachineOperationSpec) *v1.VirtualMachineOperation {
	o := &v1.VirtualMachineOperation{Spec: spec}
	o.Namespace = namespace
	o.GenerateName = spec.VirtualMachineName + "-" + strings.ToLower(string(spec.Type)) + "-"
	if user != "" {
		o.Annotations = map[string]string{v1.AnnotationRequestedBy: user}
	}
	return o
}

// Size returns the patch that sets the guest's CPUs and RAM. ram is a quantity such as 2Gi. nil and "" leave the value
// unchanged.
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

// Drives returns the indexes of the CD drives in spec.vm.disks.
func Drives(vm *v1.VirtualMachine) (places []int) {
	for i, disk := range vm.Spec.VM.Disks {
		if disk.CDROM != nil {
			places = append(places, i)
		}
	}
	return places
}

// Medium returns the patch that changes the medium in a CD drive. disk is the drive's index in spec.vm.disks; medium ""
// ejects. The API server refuses the patch if the medium has been changed since vm was read.
func Medium(vm *v1.VirtualMachine, disk int, medium string) ([]byte, error) {
	disks := vm.Spec.VM.Disks
	if disk < 0 || disk >= len(disks) || disks[disk].CDROM == nil {
		return nil, Refusal(fmt.Sprintf("spec.vm.disks[%d] is no CD drive", disk))
	}
	path := fmt.Sprintf("/spec/vm/disks/%d/cdrom/image", disk)
	return encodePatch(vm, []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": vm.UID},
		{"op": "test", "path": path, "value": disks[disk].CDROM.Image},
		{"op": "replace", "path": path, "value": medium},
	})
}

// Port returns the patch that forwards a port of a VM's pod to the same port of the guest; nil if the port already
// leads to the guest. It returns a Refusal if the VM has a tap, or lacks a network that uses the pod's ports: see
// docs/decisions/0073-addresses.md.
func Port(vm *v1.VirtualMachine, port int32, protocol corev1.Protocol) ([]byte, error) {
	networks := vm.Spec.VM.Networks
	if slices.ContainsFunc(networks, func(n v1.Network) bool { return n.Tap != nil }) {
		return nil, Refusal("the VM is on a bridge, and its pod has the node's address: a Service that selects the pod " +
			"would lead to the node; write an EndpointSlice with the guest's address " +
			"(docs/reference/networking.md#a-service-for-a-guest-on-a-bridge)")
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
	return encodePatch(vm, []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": vm.UID},
		{"op": "add", "path": path, "value": value},
	})
}

// Spec returns the merge patch that changes fields of a VM's spec.
func Spec(vm *v1.VirtualMachine, spec map[string]any) ([]byte, error) {
	return encodePatch(vm, map[string]any{"metadata": map[string]any{"uid": vm.UID}, "spec": spec})
}

func encodePatch(vm *v1.VirtualMachine, patch any) ([]byte, error) {
	text, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("change VM %s: %w", vm.Name, err)
	}
	return text, nil
}
