package store

import (
	"cmp"
	"encoding/json"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/manager/pool"
	"vmop/manager/vm/objects"
)

// encoding defines how objects of a kind are stored. Optional functions are nil if they do not apply.
type encoding[T any] struct {
	trim   func(T) // removes the fields that no reconciliation reads
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
	// group returns the group that an object is found by, in addition to its name. state returns the state that
	// objects are counted by.
	group, state func(T) string
	// class returns the VirtualMachineClass that an object uses.
	class func(T) string
	// urgency returns the priority of an object in the controller's queue.
	urgency func(T) int
	// use returns the resources that an object uses: CPUs, and RAM in MiB.
	use func(T) (cpus uint16, ram uint32)
	// ordinal returns the number in the name of an object's pod.
	ordinal func(T) int32
	// permissions returns an object's permissions as JSON.
	permissions func(T) string
	// data returns the names of the disks of a guest and of the Secrets that the guest configures itself from,
	// one per line. For an attachment, it returns the disk.
	data func(T) string
	// pooled reports whether an object is in a pool, was created by a pool, or is assigned.
	pooled func(T) bool
	// irregular reports whether an object must be found by its group although its name does not follow from the
	// group.
	irregular func(name, group string) bool
	// quiet means that a new version with the same contents requires no reconciliation.
	quiet bool
}

// vmEncoding stores VMs as JSON, grouped by the ConfigMap of their types.
func vmEncoding(namespace string) encoding[*v1.VirtualMachine] {
	return encoding[*v1.VirtualMachine]{
		trim:   trimVM,
		encode: func(vm *v1.VirtualMachine) ([]byte, error) { return json.Marshal(vm) },
		decode: func(text []byte) (*v1.VirtualMachine, error) {
			vm := &v1.VirtualMachine{}
			err := json.Unmarshal(text, vm)
			vm.Namespace = namespace
			return vm, err
		},
		group:     func(vm *v1.VirtualMachine) string { return vm.Spec.VMType.ConfigMap },
		irregular: func(_, configMap string) bool { return configMap != "" },
		state:     func(vm *v1.VirtualMachine) string { return string(vm.Status.Phase) },
		class: func(vm *v1.VirtualMachine) string {
			return cmp.Or(vm.Spec.VirtualMachineClassName, vm.Status.VirtualMachineClassName)
		},
		urgency: Urgency,
		use:     useOf,
		ordinal: func(vm *v1.VirtualMachine) int32 { return vm.Status.PodOrdinal },

		permissions: permissionsOf,
		data:        dataOf,
		pooled:      pool.Concerns,
	}
}

// operationEncoding stores operations as JSON, grouped by the VM that they name.
func operationEncoding(namespace string) encoding[*v1.VirtualMachineOperation] {
	return encoding[*v1.VirtualMachineOperation]{
		trim:   trimOperation,
		encode: func(o *v1.VirtualMachineOperation) ([]byte, error) { return json.Marshal(o) },
		decode: func(text []byte) (*v1.VirtualMachineOperation, error) {
			o := &v1.VirtualMachineOperation{}
			err := json.Unmarshal(text, o)
			o.Namespace = namespace
			return o, err
		},
		group:     func(o *v1.VirtualMachineOperation) string { return o.Spec.VirtualMachineName },
		irregular: func(_, vm string) bool { return vm != "" },
	}
}

// useOf returns the resources of a VM's guest, as reported by its runner.
func useOf(vm *v1.VirtualMachine) (cpus uint16, ram uint32) {
	size, err := resource.ParseQuantity(vm.Status.RAM)
	if err == nil {
		ram = uint32(min(max(size.Value()>>20, 0), math.MaxUint32))
	}
	return uint16(min(max(vm.Status.CPUs, 0), math.MaxUint16)), ram
}

// permissionsOf returns the permissions of a VM as JSON, or "".
func permissionsOf(vm *v1.VirtualMachine) string {
	if len(vm.Spec.Permissions) == 0 {
		return ""
	}
	text, _ := json.Marshal(vm.Spec.Permissions) // cannot fail: the fields are strings
	return string(text)
}

// dataOf returns the names of the Secrets that a VM's guest configures itself from, and of the VM's disks. A
// disk's name follows its kind and a slash, which Secret names can't contain.
func dataOf(vm *v1.VirtualMachine) (names string) {
	for _, secret := range objects.DataSecrets(vm) {
		names += secret.Name + "\n"
	}
	for _, of := range objects.DeviceRefs(vm) {
		names += of.String() + "\n"
	}
	return names
}

// dataEncoding stores Secrets that guests configure themselves from.
func dataEncoding(namespace string) encoding[*objects.Metadata] {
	e := metadataEncoding(objects.KindSecret, namespace)
	e.group, e.irregular = nil, nil
	return e
}

// podEncoding groups pods by the VM in their label.
func podEncoding(namespace string) encoding[*corev1.Pod] {
	return encoding[*corev1.Pod]{
		trim:   trimPod,
		encode: (*corev1.Pod).Marshal,
		decode: func(text []byte) (*corev1.Pod, error) {
			pod := &corev1.Pod{}
			err := pod.Unmarshal(text)
			pod.Namespace = namespace
			return pod, err
		},
		group:     func(pod *corev1.Pod) string { return pod.Labels[objects.LabelInstance] },
		irregular: func(name, vm string) bool { return name != objects.PodName(vm, 0) },
		quiet:     true,
	}
}

// metadataEncoding stores the metadata of objects of the remaining kinds.
func metadataEncoding(k objects.Kind, namespace string) encoding[*objects.Metadata] {
	e := encoding[*objects.Metadata]{
		encode: (*objects.Metadata).Marshal,
		decode: func(text []byte) (*objects.Metadata, error) {
			m := objects.NewMetadata(k)
			err := m.Unmarshal(text)
			m.Namespace = namespace
			return m, err
		},
	}
	switch k {
	case objects.KindSecret:
		e.trim, e.group = trimSecret, instanceOf
		e.irregular = func(name, vm string) bool { return name != objects.DisplaySecretOf(vm) }
	case objects.KindClaim:
		e.trim, e.group = trimClaim, instanceOf
	default:
		e.trim, e.quiet = trimOwned, k == objects.KindStatefulSet // its generation shows changes
	}
	return e
}

func instanceOf(m *objects.Metadata) string { return m.Labels[objects.LabelInstance] }
