package store

import (
	"cmp"
	"encoding/json"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/manager/pool"
)

// encoding says how objects of a kind are kept.
type encoding[T any] struct {
	trim   func(T) // leaves out what no reconciliation reads
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
	// group is what objects are found by besides their name; state is what they are
	// counted by. Nil: nothing.
	group, state func(T) string
	// class is the VirtualMachineClass that an object uses. Nil: none.
	class func(T) string
	// urgency is the priority of an object in the controller's queue. Nil: it has none.
	urgency func(T) int
	// use is what an object uses: CPUs, and RAM in MiB. Nil: nothing.
	use func(T) (cpus uint16, ram uint32)
	// ordinal is the number in the name of an object's pod. Nil: it has none.
	ordinal func(T) int32
	// permissions is who may do what with an object, as JSON. Nil: nothing.
	permissions func(T) string
	// data are the names of the Secrets from which a guest configures itself, and of its
	// disks, each with a line end; of an attachment it is its disk. Nil: nothing.
	data func(T) string
	// pooled reports whether an object is in a pool, or was made by one, or is assigned. Nil: none is.
	pooled func(T) bool
	// irregular reports that the name of an object doesn't follow from its group,
	// by which it must be found nevertheless. Nil: none is.
	irregular func(name, group string) bool
	// quiet means that a new version with the same content needs no reconciliation.
	quiet bool
}

// vmEncoding is how VMs are kept: as JSON, found by the ConfigMap of their types.
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

// operationEncoding is how operations are kept: as JSON, found by the VM that they name.
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

// useOf returns what the guest of a VM has, as its runner reports it.
func useOf(vm *v1.VirtualMachine) (cpus uint16, ram uint32) {
	size, err := resource.ParseQuantity(vm.Status.RAM)
	if err == nil {
		ram = uint32(min(max(size.Value()>>20, 0), math.MaxUint32))
	}
	return uint16(min(max(vm.Status.CPUs, 0), math.MaxUint16)), ram
}

// permissionsOf returns the permissions of a VM as JSON; "" if there are none.
func permissionsOf(vm *v1.VirtualMachine) string {
	if len(vm.Spec.Permissions) == 0 {
		return ""
	}
	text, _ := json.Marshal(vm.Spec.Permissions) // strings, of which all can be encoded
	return string(text)
}

// dataOf returns the names of the Secrets from which the guest of a VM configures itself, and its
// disks, each with its kind and a /, which no name has.
func dataOf(vm *v1.VirtualMachine) (names string) {
	for _, secret := range objects.DataSecrets(vm) {
		names += secret.Name + "\n"
	}
	for _, of := range objects.DeviceRefs(vm) {
		names += of.String() + "\n"
	}
	return names
}

// dataEncoding is how Secrets are kept from which guests configure themselves.
func dataEncoding(namespace string) encoding[*objects.Metadata] {
	e := metadataEncoding(objects.KindSecret, namespace)
	e.group, e.irregular = nil, nil
	return e
}

// podEncoding is how pods are kept, found by the VM that their label names.
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

// metadataEncoding is how the other objects are kept, of which only the metadata is
// known.
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
