package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AnnotationDefaultClass of a VirtualMachineClass is "true" if new VMs that name no class get
// this one.
const AnnotationDefaultClass = GroupName + "/is-default-class"

// A VirtualMachineClass is a tested kind of VM that users choose by its name: a CPU, a VM
// type with its options, nodes, and sizes.
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

	// Spec is what VMs of the class have, and may have.
	//
	// +required
	Spec VirtualMachineClassSpec `json:"spec,omitzero"`
	// Status is where VMs of the class can run, and who uses it.
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

// VirtualMachineClassSpec is what VMs of a class have, and may have. A running VM follows a
// change of its class when it is started again.
//
// +kubebuilder:validation:XValidation:rule="self.cpu == oldSelf.cpu",fieldPath=".cpu",message="is immutable: the guests of this class count on it; make another class"
type VirtualMachineClassSpec struct {
	// CPU is what the guests see as their CPU, unless a VM names a vm.cpuModel itself.
	CPU ClassCPU `json:"cpu"`
	// SizingPolicies are the sizes that VMs may have; each is for a range of CPUs. Default:
	// any size.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, p.cores.min <= q.cores.max && q.cores.min <= p.cores.max))",message="the ranges of cores of two policies overlap: which one is a VM to match?"
	SizingPolicies []SizingPolicy `json:"sizingPolicies,omitempty"`
	// NodeSelector says which nodes VMs of the class run on, in addition to what a VM says.
	//
	// +optional
	NodeSelector *NodeLabels `json:"nodeSelector,omitempty"`
	// Tolerations are added to those of the VM (kubectl explain pod.spec.tolerations).
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []Toleration `json:"tolerations,omitempty"`
	// VMType is the VM type of VMs that name none. A ConfigMap is one of the VM's namespace.
	//
	// +optional
	VMType *VMType `json:"vmType,omitempty"`
	// Defaults are for fields of spec.vm that a VM leaves out: what it says itself takes
	// precedence.
	//
	// +optional
	Defaults *ClassDefaults `json:"defaults,omitempty"`
}

// CPUType says what the guests of a class see as their CPU.
//
// +kubebuilder:validation:Enum=Host;HostPassthrough;Model;Discovery;Features
type CPUType string

// The types of CPUs.
const (
	CPUHost            CPUType = "Host"            // the node's
	CPUHostPassthrough CPUType = "HostPassthrough" // the node's, too: QEMU makes no difference
	CPUModel           CPUType = "Model"           // one of QEMU's models
	CPUDiscovery       CPUType = "Discovery"       // a base model, with what some nodes have in common
	CPUFeatures        CPUType = "Features"        // a base model, with certain features
)

// ClassCPU is what guests see as their CPU.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'Model' || has(self.model)",fieldPath=".model",message="the type Model needs one of QEMU's models, such as Skylake-Server (qemu-system-x86_64 -cpu help)"
// +kubebuilder:validation:XValidation:rule="!has(self.model) || !(self.type in ['Host', 'HostPassthrough'])",fieldPath=".model",message="the type is Host: leave model out, or set type to Model"
// +kubebuilder:validation:XValidation:rule="(self.type == 'Features') == has(self.features)",fieldPath=".features",message="features, such as [avx2, aes], belong to the type Features, and it needs some"
// +kubebuilder:validation:XValidation:rule="self.type == 'Discovery' || !has(self.discovery)",fieldPath=".discovery",message="belongs to the type Discovery"
type ClassCPU struct {
	// Type is Host or HostPassthrough, the node's CPU; Model; Features, a base model with
	// these features; or Discovery, a base model with the features that nodes have in common.
	Type CPUType `json:"type"`
	// Model is one of QEMU's (qemu-system-x86_64 -cpu help). For Features and Discovery it is
	// the base model. Default: there, Nehalem.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-a-zA-Z0-9._]*$')",message="want the name of a CPU model, such as Skylake-Server; its features belong into features"
	Model string `json:"model,omitempty"`
	// Features are what the CPU has besides the base model, by QEMU's names, such as avx2.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Features []CPUFeature `json:"features,omitempty"`
	// Discovery says which nodes the features are common to. Default: all.
	//
	// +optional
	Discovery *Discovery `json:"discovery,omitempty"`
}

// CPUFeature is QEMU's name of a feature.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][-a-z0-9._]*$')",message="want QEMU's name of a feature, such as avx2, in lower case and without + or -"
type CPUFeature string

// Discovery says which nodes have the features in common.
type Discovery struct {
	// NodeSelector selects the nodes. Default: all.
	//
	// +optional
	NodeSelector *NodeLabels `json:"nodeSelector,omitempty"`
}

// NodeLabels select nodes by their labels. A node must match all that is given.
type NodeLabels struct {
	// MatchLabels are labels with their values.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// MatchExpressions are requirements.
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

// NodeRequirement is a requirement for a label of a node.
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
	// Operator is In, NotIn, Exists, DoesNotExist, Gt or Lt.
	//
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	Operator string `json:"operator"`
	// Values to compare with.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// Toleration is that of a pod.
//
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value)",fieldPath=".value",message="Exists has no value"
// +kubebuilder:validation:XValidation:rule="has(self.key) || has(self.operator) && self.operator == 'Exists'",fieldPath=".operator",message="without a key it must be Exists, which tolerates all taints"
type Toleration struct {
	// Key of the taint. Default: any.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`
	// Operator is Equal (the default) or Exists.
	//
	// +optional
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator string `json:"operator,omitempty"`
	// Value of the taint.
	//
	// +optional
	Value LabelValue `json:"value,omitempty"`
	// Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute. Default: all.
	//
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect,omitempty"`
	// TolerationSeconds is for how long a taint NoExecute is tolerated. Default: forever.
	//
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// SizingPolicy is what VMs with so many CPUs may have.
//
// +kubebuilder:validation:XValidation:rule="!has(self.defaultCoreFraction) || !has(self.coreFractions) || self.defaultCoreFraction in self.coreFractions",fieldPath=".defaultCoreFraction",message="must be one of coreFractions"
type SizingPolicy struct {
	// Cores are the numbers of CPUs (spec.vm.maximumCpus) that the policy is for.
	Cores CoreRange `json:"cores"`
	// Memory is how large spec.vm.maximumRam may be. Default: any size.
	//
	// +optional
	Memory *MemoryRange `json:"memory,omitempty"`
	// CoreFractions are those that spec.cpu.coreFraction may have. Default: any.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	CoreFractions []CoreFraction `json:"coreFractions,omitempty"`
	// DefaultCoreFraction is that of VMs that have none. Default: the largest of
	// coreFractions; without those the pod requests what it does without a class.
	//
	// +optional
	DefaultCoreFraction CoreFraction `json:"defaultCoreFraction,omitempty"`
	// DedicatedCores allows VMs to have their CPUs for themselves, which a coreFraction of
	// 100% means: [true] is no other one, [false] not this one. Default: both.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	DedicatedCores []bool `json:"dedicatedCores,omitempty"`
}

// CoreRange is a range of numbers of CPUs.
//
// +kubebuilder:validation:XValidation:rule="self.min <= self.max",fieldPath=".max",message="must be at least min"
type CoreRange struct {
	// Min is the smallest number, 1 to 4096.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Min int32 `json:"min"`
	// Max is the largest number, 1 to 4096.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Max int32 `json:"max"`
	// Step is the distance from one number to the next, from min on. Default: 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	Step int32 `json:"step,omitempty"`
}

// MemoryRange is a range of sizes of memory.
//
// +kubebuilder:validation:XValidation:rule="!has(self.step) || !isQuantity(string(self.step)) || quantity(string(self.step)).compareTo(quantity('1Mi')) >= 0",fieldPath=".step",message="must be at least 1Mi"
type MemoryRange struct {
	MemoryBounds `json:",inline"`
	// Step is the distance from one size to the next, from min on. Default: any size.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="want a size such as 8Gi or 512Mi"
	Step *resource.Quantity `json:"step,omitempty"`
	// PerCore bounds the memory for each CPU.
	//
	// +optional
	PerCore *MemoryBounds `json:"perCore,omitempty"`
}

// MemoryBounds are the smallest and the largest size of memory.
//
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || !isQuantity(string(self.min)) || !isQuantity(string(self.max)) || quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0",fieldPath=".max",message="must be at least min"
type MemoryBounds struct {
	// Min is the smallest size, such as 1Gi. Default: none.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="want a size such as 8Gi or 512Mi"
	Min *resource.Quantity `json:"min,omitempty"`
	// Max is the largest size. Default: none.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="want a size such as 8Gi or 512Mi"
	Max *resource.Quantity `json:"max,omitempty"`
}

// CoreFraction is how much of its CPUs a VM is sure to get, such as 20%.
//
// +kubebuilder:validation:MaxLength=4
// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]?|100)%$')",message="want a whole percentage from 1% to 100%, such as 20%"
type CoreFraction string

// ClassDefaults are for fields of spec.vm that a VM leaves out. Each has the meaning that it
// has there.
type ClassDefaults struct {
	// Firmware is that of spec.vm.
	//
	// +optional
	// +kubebuilder:validation:Enum=bios;uefi;uefi-4m;secure;secure-4m
	Firmware string `json:"firmware,omitempty"`
	// UseTPM is useTpm of spec.vm.
	//
	// +optional
	UseTPM *bool `json:"useTpm,omitempty"`
	// BootMenu is that of spec.vm.
	//
	// +optional
	BootMenu *bool `json:"bootMenu,omitempty"`
	// PowerdownTimeout is that of spec.vm, in seconds.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	PowerdownTimeout *int32 `json:"powerdownTimeout,omitempty"`
	// Accelerator is that of spec.vm.
	//
	// +optional
	// +kubebuilder:validation:Enum=auto;kvm;tcg;none
	Accelerator string `json:"accelerator,omitempty"`
	// RTCBase is rtcBase of spec.vm.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^(utc|localtime|[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2})?)$')",message="want utc, localtime, or a time such as 2026-01-31 or 2026-01-31T12:00:00"
	// +kubebuilder:validation:MaxLength=64
	RTCBase string `json:"rtcBase,omitempty"`
	// RTCClock is rtcClock of spec.vm.
	//
	// +optional
	// +kubebuilder:validation:Enum=host;rt;vm
	RTCClock string `json:"rtcClock,omitempty"`
	// Networks are those of spec.vm, for VMs that list none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Networks []Network `json:"networks,omitempty"`
	// Display is that of spec.vm, as a whole.
	//
	// +optional
	Display *Display `json:"display,omitempty"`
	// Options are those of spec.vm, each for itself.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Options *runtime.RawExtension `json:"options,omitempty"`
}
