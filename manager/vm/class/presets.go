package class

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// Presets returns the initial classes of a cluster. host uses the CPU of the node and is the fastest. generic uses
// the same CPU on every x86-64 node, with the features of all CPUs since 2008 (x86-64-v2).
func Presets() []*v1.VirtualMachineClass {
	preset := func(name string, spec v1.VirtualMachineClassSpec) *v1.VirtualMachineClass {
		return &v1.VirtualMachineClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	return []*v1.VirtualMachineClass{
		preset("host", v1.VirtualMachineClassSpec{CPU: v1.ClassCPU{Type: v1.CPUHost}}),
		preset("generic", v1.VirtualMachineClassSpec{
			CPU:          v1.ClassCPU{Type: v1.CPUModel, Model: baseModel},
			NodeSelector: &v1.NodeLabels{MatchLabels: map[string]v1.LabelValue{corev1.LabelArchStable: "amd64"}},
		}),
	}
}
