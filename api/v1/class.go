package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AnnotationDefaultClass with the value "true" marks the VirtualMachineClass of new VMs that name
// no class.
const AnnotationDefaultClass = GroupName + "/is-default-class"

// VirtualMachineClass is a tested kind of VM that users select by name. It defines the CPU, the VM
// type with its options, the nodes, and the allowed sizes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualmachineclasses,singular=virtualmachineclass,shortName=vmclass,scope=Cluster
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="IsDefault",type=string,JSONPath=`.metadata.annotations.vmoperator\.jdrupes\.org\/is-default-class`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.cpu.type`,priority=1
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.vmType.source`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",fieldPath=".metadata",message="metadata.name must be a DNS label (a-z, 0-9 and -, at most 63)"
type VirtualMachineClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// CPU, sizes, nodes and defaults of the class's VMs.
	//
	// +required
	Spec VirtualMachineClassSpec `json:"spec,omitzero"`
	// Nodes that can run VMs of the class, and the VMs that use it. Written by managers.
	//
	// +optional
	// +kubebuilder:default={phase: Pending}
	Status VirtualMachineClassStatus `json:"status,omitzero"`
}

// VirtualMachineClassList is a list of classes.
//
// +kubebuilder:object:root=true
type VirtualMachineClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualMachineClass `json:"items"`
}

// VirtualMachineClassSpec defines the CPU, sizes, nodes and defaults of a class's VMs. A change
// takes effect when a VM is restarted.
//
// +kubebuilder:validation:XValidation:rule="self.cpu == oldSelf.cpu",fieldPath=".cpu",message="is immutable: the guests of this class count on it; make another class"
type VirtualMachineClassSpec struct {
	// CPU that the guests see. A VM with vm.cpuModel overrides it.
	CPU ClassCPU `json:"cpu"`
	// Allowed sizes of VMs. Each policy applies to a range of CPU counts. Defaults to any size.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, p.cores.min <= q.cores.max && q.cores.min <= p.cores.max))",message="the ranges of cores of two policies overlap: which one is a VM to match?"
	SizingPolicies []SizingPolicy `json:"sizingPolicies,omitempty"`
	// Nodes that VMs of the class may run on, in addition to the VM's own constraints.
	//
	// +optional
	NodeSelector *NodeLabels `json:"nodeSelector,omitempty"`
	// Tolerations that are added to the VM's own (see kubectl explain pod.spec.tolerations).
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// VM type for VMs that name none. Its ConfigMap is read from the VM's namespace.
	//
	// +optional
	VMType *VMType `json:"vmType,omitempty"`
	// Defaults for fields that a VM omits from spec.vm. The VM's own values take precedence.
	//
	// +optional
	Defaults *ClassDefaults `json:"defaults,omitempty"`
	// Names of options in spec.vm.options that VMs of the class must not set to another value than
	// defaults.options. A VM that does so doesn't start.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	LockedOptions []OptionName `json:"lockedOptions,omitempty"`
}

// OptionName is the name of an option of a VM type.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_]*$')",message="must be the name of an option of the VM type, such as panic"
type OptionName string

// CPUType selects the CPU that the guests of a class see.
//
// +kubebuilder:validation:Enum=Host;HostPassthrough;Model;Discovery;Features
type CPUType string

// The types of CPUs.
const (
	CPUHost            CPUType = "Host"            // the node's
	CPUHostPassthrough CPUType = "HostPassthrough" // the node's; the same for QEMU
	CPUModel           CPUType = "Model"           // one of QEMU's models
	CPUDiscovery       CPUType = "Discovery"       // a base model with the common features of some nodes
	CPUFeatures        CPUType = "Features"        // a base model with certain features
)

// ClassCPU selects the CPU that guests see.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'Model' || has(self.model)",fieldPath=".model",message="the type Model needs one of QEMU's models, such as Skylake-Server (qemu-system-x86_64 -cpu help)"
// +kubebuilder:validation:XValidation:rule="!has(self.model) || !(self.type in ['Host', 'HostPassthrough'])",fieldPath=".model",message="the type is Host: leave model out, or set type to Model"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Features') == has(self.features)",fieldPath=".features",message="features, such as [avx2, aes], belong to the type Features, and it needs some"
// +kubebuilder:validation:XValidation:rule="self.type == 'Discovery' || !has(self.discovery)",fieldPath=".discovery",message="belongs to the type Discovery"
type ClassCPU struct {
	// Type of the CPU. Host and HostPassthrough: the node's CPU. Model: a model of QEMU. Features:
	// a base model with the listed features. Discovery: a base model with the features that the
	// selected nodes have in common.
	Type CPUType `json:"type"`
	// CPU model of QEMU (see qemu-system-x86_64 -cpu help). For Features and Discovery this is the
	// base model, which defaults to Nehalem. Required for Model.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-a-zA-Z0-9._]*$')",message="must be the name of a CPU model, such as Skylake-Server; its features belong into features"
	Model string `json:"model,omitempty"`
	// Features to add to the base model, by QEMU's names, such as avx2.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Features []CPUFeature `json:"features,omitempty"`
	// Nodes that must share the features. Defaults to all nodes.
	//
	// +optional
	Discovery *Discovery `json:"discovery,omitempty"`
}

// CPUFeature is QEMU's name of a CPU feature.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][-a-z0-9._]*$')",message="must be QEMU's name of a feature, such as avx2, in lower case and without + or -"
type CPUFeature string

// Discovery selects the nodes that must share the features.
type Discovery struct {
	// Selects the nodes. Defaults to all nodes.
	//
	// +optional
	NodeSelector *NodeLabels `json:"nodeSelector,omitempty"`
}

// NodeLabels selects nodes by labels. A node must match all given labels and expressions.
type NodeLabels struct {
	// Labels that a node must have, with their values.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// Expressions that a node's labels must satisfy.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	MatchExpressions []NodeRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// NodeRequirement is a requirement for a node label.
//
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values)",fieldPath=".values",message="Exists and DoesNotExist have no values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || has(self.values)",fieldPath=".values",message="In and NotIn need at least one value"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt']) || has(self.values) && self.values.size() == 1 && self.values[0].matches('^-?[0-9]+$')",fieldPath=".values",message="Gt and Lt need one value, an integer"
type NodeRequirement struct {
	// Key of the label.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// Operator that compares the label with values: In, NotIn, Exists, DoesNotExist, Gt or Lt.
	//
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	Operator string `json:"operator"`
	// Values to compare the label with.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// Toleration lets pods run on nodes with a matching taint.
//
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value)",fieldPath=".value",message="Exists has no value"
// +kubebuilder:validation:XValidation:rule="has(self.key) || has(self.operator) && self.operator == 'Exists'",fieldPath=".operator",message="without a key it must be Exists, which tolerates all taints"
type Toleration struct {
	// Key of the taint. Defaults to all taints.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`
	// Operator that compares the taint's value: Equal or Exists. Defaults to Equal.
	//
	// +optional
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator string `json:"operator,omitempty"`
	// Value of the taint.
	//
	// +optional
	Value LabelValue `json:"value,omitempty"`
	// Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Defaults to all effects.
	//
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect,omitempty"`
	// Number of seconds that a NoExecute taint is tolerated. Defaults to no limit.
	//
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// SizingPolicy defines the sizes allowed for VMs within a range of CPU counts.
//
// +kubebuilder:validation:XValidation:rule="!has(self.defaultCoreFraction) || !has(self.coreFractions) || self.defaultCoreFraction in self.coreFractions",fieldPath=".defaultCoreFraction",message="must be one of coreFractions"
type SizingPolicy struct {
	// Range of CPU counts (spec.vm.maximumCpus) that the policy applies to.
	Cores CoreRange `json:"cores"`
	// Allowed sizes of spec.vm.maximumRam. Defaults to any size.
	//
	// +optional
	Memory *MemoryRange `json:"memory,omitempty"`
	// Allowed values of spec.cpu.coreFraction. Defaults to any value.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	CoreFractions []CoreFraction `json:"coreFractions,omitempty"`
	// Core fraction of VMs without spec.cpu.coreFraction. Defaults to the largest of coreFractions.
	// Without coreFractions the pod requests the same CPUs as without a class.
	//
	// +optional
	DefaultCoreFraction CoreFraction `json:"defaultCoreFraction,omitempty"`
	// Whether VMs may reserve whole CPUs, which is what a coreFraction of 100% does. [true]
	// requires reserved CPUs, [false] forbids them. Defaults to both.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	DedicatedCores []bool `json:"dedicatedCores,omitempty"`
}

// CoreRange is a range of CPU counts.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",fieldPath=".max",message="must be at least min"
type CoreRange struct {
	// Smallest number of CPUs, 1 to 4096.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Min int32 `json:"min"`
	// Largest number of CPUs, 1 to 4096.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Max int32 `json:"max"`
	// Increment between allowed numbers of CPUs, counted from min. Defaults to 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Step int32 `json:"step,omitempty"`
}

// MemoryRange is a range of memory sizes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.step) || !isQuantity(string(self.step)) || quantity(string(self.step)).compareTo(quantity('1Mi')) >= 0",fieldPath=".step",message="must be at least 1Mi"
type MemoryRange struct {
	MemoryBounds `json:",inline"`
	// Increment between allowed sizes, counted from min. Defaults to any size.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a size such as 8Gi or 512Mi"
	Step *resource.Quantity `json:"step,omitempty"`
	// Bounds of the memory per CPU.
	//
	// +optional
	PerCore *MemoryBounds `json:"perCore,omitempty"`
}

// MemoryBounds are the smallest and the largest memory size.
//
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || !isQuantity(string(self.min)) || !isQuantity(string(self.max)) || quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0",fieldPath=".max",message="must be at least min"
type MemoryBounds struct {
	// Smallest size, such as 1Gi. Defaults to no bound.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a size such as 8Gi or 512Mi"
	Min *resource.Quantity `json:"min,omitempty"`
	// Largest size, such as 4Gi. Defaults to no bound.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a size such as 8Gi or 512Mi"
	Max *resource.Quantity `json:"max,omitempty"`
}

// CoreFraction is the guaranteed share of each of a VM's CPUs, such as 20%.
//
// +kubebuilder:validation:MaxLength=4
// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]?|100)%$')",message="must be a whole percentage from 1% to 100%, such as 20%"
type CoreFraction string

// ClassDefaults are defaults for fields that a VM omits from spec.vm. Each field has the same
// meaning as in spec.vm.
type ClassDefaults struct {
	// Default for spec.vm.firmware.
	//
	// +optional
	// +kubebuilder:validation:Enum=bios;uefi;uefi-4m;secure;secure-4m
	Firmware string `json:"firmware,omitempty"`
	// Default for spec.vm.useTpm.
	//
	// +optional
	UseTPM *bool `json:"useTpm,omitempty"`
	// Default for spec.vm.bootMenu.
	//
	// +optional
	BootMenu *bool `json:"bootMenu,omitempty"`
	// Default for spec.vm.powerdownTimeout, in seconds.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	PowerdownTimeout *int32 `json:"powerdownTimeout,omitempty"`
	// Default for spec.vm.accelerator.
	//
	// +optional
	// +kubebuilder:validation:Enum=auto;kvm;tcg;none
	Accelerator string `json:"accelerator,omitempty"`
	// Default for spec.vm.rtcBase.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^(utc|localtime|[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2})?)$')",message="must be utc, localtime, or a time such as 2026-01-31 or 2026-01-31T12:00:00"
	// +kubebuilder:validation:MaxLength=64
	RTCBase string `json:"rtcBase,omitempty"`
	// Default for spec.vm.rtcClock.
	//
	// +optional
	// +kubebuilder:validation:Enum=host;rt;vm
	RTCClock string `json:"rtcClock,omitempty"`
	// Default for spec.vm.networks. Applies only to VMs that list no network.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Networks []Network `json:"networks,omitempty"`
	// Default for spec.vm.display. A VM's own display replaces it as a whole.
	//
	// +optional
	Display *Display `json:"display,omitempty"`
	// Defaults for spec.vm.options. A VM overrides each option separately.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Options *runtime.RawExtension `json:"options,omitempty"`
}
