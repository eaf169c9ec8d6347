package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// VirtualMachine is a VM that runs in a pod, with its disks.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=vms,singular=vm,shortName=virtualmachine
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Cores",type=integer,JSONPath=`.spec.vm.maximumCpus`,priority=1
// +kubebuilder:printcolumn:name="CoreFraction",type=string,JSONPath=`.spec.cpu.coreFraction`,priority=1
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.vm.maximumRam`,priority=1
// +kubebuilder:printcolumn:name="Need restart",type=string,JSONPath=`.status.conditions[?(@.type=="RestartRequired")].status`,priority=1
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.conditions[?(@.type=="Booted")].status`,priority=1
// +kubebuilder:printcolumn:name="Migratable",type=string,JSONPath=`.status.conditions[?(@.type=="Migratable")].status`,priority=1
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="IPAddress",type=string,JSONPath=`.status.addresses[0].address`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CPUs",type=integer,JSONPath=`.status.cpus`,priority=1
// +kubebuilder:printcolumn:name="RAM",type=string,JSONPath=`.status.ram`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.vmType`,priority=1
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.vm.state`,priority=1
// +kubebuilder:printcolumn:name="Console-user",type=string,JSONPath=`.status.consoleUser`,priority=1
// +kubebuilder:printcolumn:name="UUID",type=string,JSONPath=`.status.uuid`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="metadata.name must be a DNS label (a-z, 0-9 and -): it is the guest's host name"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 48",fieldPath=".metadata",message="metadata.name must have at most 48 characters: the names of pods and volumes are made of it"
type VirtualMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Definition of the VM.
	//
	// +required
	Spec VirtualMachineSpec `json:"spec,omitzero"`
	// State of the VM, as reported by its runner and the manager.
	//
	// +optional
	// +kubebuilder:default={phase: Pending, reason: NotSeen, message: "no manager has seen the VM yet: check that one is running in its namespace (kubectl get deployment vm-operator)"}
	Status VirtualMachineStatus `json:"status,omitzero"`
}

// VirtualMachineList is a list of VMs.
//
// +kubebuilder:object:root=true
type VirtualMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualMachine `json:"items"`
}

// VirtualMachineSpec is the definition of a VM.
//
// +kubebuilder:validation:XValidation:rule="!has(self.runPolicy) || self.runPolicy != 'AlwaysOn' || !has(self.vm.state) || self.vm.state == 'Running'",fieldPath=".vm.state",message="Stopped contradicts the runPolicy AlwaysOn: leave vm.state out, or set runPolicy to AlwaysOnUnlessStoppedManually"
// +kubebuilder:validation:XValidation:rule="!has(self.runPolicy) || self.runPolicy != 'AlwaysOff' || !has(self.vm.state) || self.vm.state == 'Stopped'",fieldPath=".vm.state",message="Running contradicts the runPolicy AlwaysOff: leave vm.state out, or set runPolicy to Manual"
// +kubebuilder:validation:XValidation:rule="!has(self.runPolicy) || self.runPolicy != 'AlwaysOn' || !has(self.guestShutdownStops) || !self.guestShutdownStops",fieldPath=".guestShutdownStops",message="true contradicts the runPolicy AlwaysOn: leave it out, or set runPolicy to AlwaysOnUnlessStoppedManually"
// +kubebuilder:validation:XValidation:rule="!has(self.virtualMachineIPAddressName) || has(self.vm.networks) && self.vm.networks.exists(n, has(n.tap))",fieldPath=".virtualMachineIPAddressName",message="needs a network of kind tap, which has the address: add tap to vm.networks, or leave it out; other networks have the pod's address"
// +kubebuilder:validation:XValidation:rule="!has(self.provisioning) || !has(self.cloudInit)",fieldPath=".provisioning",message="cloudInit is given as well: leave one of the two out"
// +kubebuilder:validation:XValidation:rule="!has(self.blockDeviceRefs) || !has(self.vm.disks) || self.vm.disks.all(d, !has(d.virtualDisk) || !self.blockDeviceRefs.exists(r, r.kind == 'VirtualDisk' && r.name == d.virtualDisk.name))",fieldPath=".blockDeviceRefs",message="a VirtualDisk is in vm.disks as well: leave it out at one of both places"
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || !has(self.cpu.coreFraction) || !has(self.resources)",fieldPath=".resources",message="contradicts cpu.coreFraction, which says what the pod requests: leave out one of both"
type VirtualMachineSpec struct {
	// Hardware of the VM.
	VM VM `json:"vm"`
	// VirtualDisks and images that the VM uses, in boot order. They are booted after the vm.disks
	// that have a bootindex. The VM stays Pending until all of them are available.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(d, self.exists_one(e, e.kind == d.kind && e.name == d.name))",message="two entries name the same block device"
	// +kubebuilder:validation:XValidation:rule="self.filter(d, has(d.bootOrder)).all(d, self.exists_one(e, has(e.bootOrder) && e.bootOrder == d.bootOrder))",message="two entries have the same bootOrder"
	BlockDeviceRefs []BlockDeviceRef `json:"blockDeviceRefs,omitempty"`
	// Snapshot to create the VM's own volumes from: the vm.disks with a volumeClaimTemplate, and
	// the runner's data. It applies to volumes whose claims don't exist yet. Defaults to empty
	// volumes.
	//
	// +optional
	DataSource *VirtualMachineDataSource `json:"dataSource,omitempty"`
	// Suffix for the names of the VM's own claims, after a dot. If you change it, the VM uses
	// different volumes from its next start: existing claims with these names, otherwise new claims
	// created from dataSource. The previous claims are kept, and are used again with the previous
	// suffix. Defaults to no suffix and no dot.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClaimNameSuffix string `json:"claimNameSuffix,omitempty"`
	// Name of the VirtualMachineClass, which provides values for omitted fields and limits the size
	// of the VM. A change takes effect at the next start. Defaults, for a new VM, to the cluster's
	// default class if there is one.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a VirtualMachineClass, such as generic"
	VirtualMachineClassName string `json:"virtualMachineClassName,omitempty"`
	// Guaranteed share of the VM's CPUs.
	//
	// +optional
	CPU *CPU `json:"cpu,omitempty"`
	// VM type, which computes QEMU's arguments. Defaults to the class's type, otherwise standard.
	//
	// +optional
	VMType VMType `json:"vmType,omitzero"`
	// VM-Operator's equivalent of vmType. VM-Operator's own template means the type standard. With
	// any other template the VM doesn't start until vmType names the type that replaces it.
	//
	// +optional
	RunnerTemplate *RunnerTemplate `json:"runnerTemplate,omitempty"`
	// Container image of the runner. Defaults to the manager's image.
	//
	// +optional
	Image *Image `json:"image,omitempty"`
	// When the VM runs. AlwaysOn: always; it can't be stopped. AlwaysOnUnlessStoppedManually: from
	// its creation, until it is stopped or the guest shuts down; it restarts after a crash. Manual:
	// after it is started; it stays off after a shutdown or a crash. AlwaysOff: never. A VM is
	// stopped by setting vm.state to Stopped. Unset: vm.state and guestShutdownStops decide.
	//
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`
	// Reaction to an eviction of the VM's pod, for example by kubectl drain. LiveMigrate: the guest
	// migrates to another node, and the eviction waits until it succeeds. LiveMigrateIfPossible:
	// the guest migrates, or is shut down if it can't. Shutdown: the guest is shut down and started
	// on another node. Defaults to Shutdown.
	//
	// +optional
	EvictionStrategy EvictionStrategy `json:"evictionStrategy,omitempty"`
	// How the guest migrates to another node.
	//
	// +optional
	Migration *MigrationPolicy `json:"migration,omitempty"`
	// How the VM may be interrupted.
	//
	// +optional
	Disruptions *Disruptions `json:"disruptions,omitempty"`
	// Whether vm.state is set to Stopped when the guest shuts down. If false, the VM is started
	// again. Ignored if runPolicy is set. Defaults to false.
	//
	// +kubebuilder:default=false
	GuestShutdownStops bool `json:"guestShutdownStops,omitempty"`
	// Resets the VM each time this number is increased. Defaults to 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ResetCounter *int64 `json:"resetCounter,omitempty"`
	// Data for cloud-init in the guest (NoCloud), slightly less than 1 MiB at most. All users who
	// can read the VM can read it. Defaults to no data.
	//
	// +optional
	CloudInit *CloudInit `json:"cloudInit,omitempty"`
	// Data that the guest configures itself with at its first boot: user-data for cloud-init, or
	// answer files of Windows Setup. Compatible with Deckhouse. Excludes cloudInit. Defaults to no
	// data.
	//
	// +optional
	Provisioning *Provisioning `json:"provisioning,omitempty"`
	// Changes to the labels and annotations of the Service for the display. An empty object removes
	// the Service.
	//
	// +optional
	LoadBalancerService *LoadBalancerService `json:"loadBalancerService,omitempty"`

	// Name of the VirtualMachineIPAddress for the VM's first tap network. A change takes effect at
	// the next start. By default the manager creates one if virtualMachineCIDRs in its
	// configuration contains ranges.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a VirtualMachineIPAddress in the VM's namespace (kubectl get vmip)"
	// +kubebuilder:validation:MaxLength=63
	VirtualMachineIPAddressName string `json:"virtualMachineIPAddressName,omitempty"`

	// Resource requests and limits of the pod. Defaults to requests that are computed from the
	// current CPUs and RAM, the manager's overcommit, and QEMU's overhead.
	//
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// Name of the node to run on, bypassing the scheduler. Defaults to the scheduler's choice.
	//
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// Labels that the VM's node must have.
	//
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Nodes, VMs and pods that the VM should run near or avoid.
	//
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`
	// Tolerations of the pod (see kubectl explain pod.spec.tolerations).
	//
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Topology spread constraints of the pod (see kubectl explain
	// pod.spec.topologySpreadConstraints).
	//
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// Name of the PriorityClass of the pod.
	//
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// Permissions of users and roles for the VM in the manager's web pages and API. Permissions are
	// cumulative. They don't restrict users who can change the VM by other means, such as kubectl.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Permissions []Permission `json:"permissions,omitempty"`
	// Names of the VmPools that the VM belongs to. Users with permissions of a pool may get the VM.
	//
	// +optional
	Pools []string `json:"pools,omitempty"`
	// Log levels of the runner in java.util.logging format, such as .level=WARNING. A change takes
	// effect at the next start. Defaults to the manager's configuration.
	//
	// +optional
	LoggingProperties string `json:"loggingProperties,omitempty"`
}

// CPU is the guaranteed share of a VM's CPUs.
type CPU struct {
	// Guaranteed share of each of vm.maximumCpus, 1% to 100%, such as 20%. The VM gets more while
	// no other pod needs it. The pod requests this share and is limited to vm.maximumCpus; 100%
	// also reserves its memory. Defaults to the class's value. Otherwise the request depends on the
	// manager's overcommit, without a limit.
	//
	// +optional
	CoreFraction CoreFraction `json:"coreFraction,omitempty"`
}

// RunnerTemplate names a FreeMarker template of VM-Operator.
type RunnerTemplate struct {
	// Name of the template.
	//
	// +optional
	Source string `json:"source,omitempty"`
	// Same as vmType.update.
	//
	// +optional
	Update *bool `json:"update,omitempty"`
}

// VMType is a VM type, which computes QEMU's arguments.
//
// +kubebuilder:validation:XValidation:rule="!has(self.image) || !has(self.configMap)",fieldPath=".image",message="configMap is given as well: leave one of the two out"
// +kubebuilder:validation:XValidation:rule="!has(self.image) || has(self.source)",fieldPath=".image",message="requires source as well: the name of a type in the image"
// +kubebuilder:validation:XValidation:rule="has(self.image) || !has(self.imagePullSecret) && !has(self.caBundle)",fieldPath=".image",message="imagePullSecret and caBundle are for an image"
type VMType struct {
	// Name of the type: standard, cloud, windows, microvm, pc or arm64, or a type from a ConfigMap
	// or an image. Defaults to the class's type, otherwise standard.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-_.a-zA-Z0-9]*$')",message="must be the name of a VM type, such as standard: letters, digits, -, _ and ., no path"
	// +kubebuilder:validation:MaxLength=63
	Source string `json:"source,omitempty"`
	// Whether the VM uses the newest version of the type at each start. If false, it keeps the
	// version of its first start. Defaults to the class's value, otherwise true.
	//
	// +optional
	Update *bool `json:"update,omitempty"`
	// Name of a ConfigMap with modules of custom types. Defaults to vmTypesConfigMap in the
	// manager's configuration.
	//
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
	// VM type in a registry (see vmrunner vmtype push), REGISTRY/NAME:TAG or
	// REGISTRY/NAME@sha256:…, or with a range of versions such as REGISTRY/NAME:^1.2, which is the
	// newest tag in the range. It must match trustedVMTypeImages in the manager's configuration. A
	// tag or range is resolved at each start, or only once with update: false. This field doesn't
	// exist in VM-Operator.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][^ ]*$')",message="must be the name of a VM type in a registry, such as registry.example.org/types/asset:1.2"
	Image string `json:"image,omitempty"`
	// Secret of the type kubernetes.io/dockerconfigjson with credentials for the image's registry.
	//
	// +optional
	ImagePullSecret *LocalSecretRef `json:"imagePullSecret,omitempty"`
	// PEM certificates of authorities to trust for the image's registry, in addition to the
	// well-known ones, base64-encoded.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	CABundle []byte `json:"caBundle,omitempty"`
}

// VMTypeImage is a VM type in a registry.
type VMTypeImage struct {
	// Reference of the image, as in spec.vmType.image.
	Image string `json:"image"`
	// Digest of the manifest, sha256:….
	Digest string `json:"digest"`
	// Tag that a range of versions in the reference selected; otherwise empty.
	//
	// +optional
	Version string `json:"version"`
}

// Image names a container image.
//
// +kubebuilder:validation:XValidation:rule="has(self.source) != (has(self.repository) && has(self.path))",message="set either source, or repository and path"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.version)",message="version belongs to repository and path; write it into source"
type Image struct {
	// Full name of the image. Set either source, or repository and path.
	//
	// +optional
	Source string `json:"source,omitempty"`
	// Host of the registry, and the beginning of the image's name.
	//
	// +optional
	Repository string `json:"repository,omitempty"`
	// Remaining part of the image's name.
	//
	// +optional
	Path string `json:"path,omitempty"`
	// Tag of the image.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// When the image is pulled: Always, IfNotPresent or Never. Defaults to Always for the tag
	// latest, otherwise IfNotPresent.
	//
	// +optional
	// +kubebuilder:validation:Enum=Always;Never;IfNotPresent
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
}

// CloudInit is data for cloud-init.
//
// +kubebuilder:validation:XValidation:rule="!has(self.networkConfig) || !has(self.networkDataFrom)",fieldPath=".networkDataFrom",message="networkConfig is given as well: leave one of the two out"
type CloudInit struct {
	// Meta-data. The manager adds missing values of instance-id and local-hostname.
	//
	// +optional
	MetaData map[string]string `json:"metaData,omitempty"`
	// User-data: an object, which becomes a cloud-config, or text such as a script (#!/bin/sh) or a
	// MIME message. Text without a header of cloud-init is treated as a cloud-config.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	UserData *runtime.RawExtension `json:"userData,omitempty"`
	// Secret with the user-data as text. Excludes userData.
	//
	// +optional
	UserDataFrom *DataSource `json:"userDataFrom,omitempty"`
	// Secret with the network configuration as YAML. Excludes networkConfig.
	//
	// +optional
	NetworkDataFrom *DataSource `json:"networkDataFrom,omitempty"`
	// Vendor-data, in the same form as userData. Values in userData take precedence.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	VendorData *runtime.RawExtension `json:"vendorData,omitempty"`
	// Network configuration of cloud-init.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	NetworkConfig *runtime.RawExtension `json:"networkConfig,omitempty"`
}

// LoadBalancerService changes the labels and annotations from the manager's configuration. A value
// of null removes an entry.
type LoadBalancerService struct {
	// Labels of the Service.
	//
	// +optional
	// +nullable
	Labels map[string]*Entry `json:"labels,omitempty"`
	// Annotations of the Service.
	//
	// +optional
	// +nullable
	Annotations map[string]*Entry `json:"annotations,omitempty"`
}

// Entry is a value, or null.
type Entry string

// Resources are requests and limits of the pod's container or of a claim.
type Resources struct {
	// Maximum amounts of resources.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(string(self[k])))",message="must be quantities: a size such as 40Gi or 512Mi, or a number of CPUs such as 2 or 500m"
	Limits corev1.ResourceList `json:"limits,omitempty"`
	// Reserved amounts of resources.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(string(self[k])))",message="must be quantities: a size such as 40Gi or 512Mi, or a number of CPUs such as 2 or 500m"
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// Permission defines what a user, or all users with a role, may do.
//
// +kubebuilder:validation:XValidation:rule="has(self.user) != has(self.role)",message="set either user or role"
type Permission struct {
	// Name of a user. Set either user or role.
	//
	// +optional
	User string `json:"user,omitempty"`
	// Name of a role. Set either user or role.
	//
	// +optional
	Role string `json:"role,omitempty"`
	// Allowed actions: start, stop, reset, accessConsole, takeConsole, resize, edit, create, delete
	// or *. A user with any permission for a VM can also see it.
	//
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=16
	May []Action `json:"may,omitempty"`
}

// Action is an action that a user may perform with a VM. start, stop, reset: change its state.
// accessConsole: see and use its screen and console. takeConsole: do so even when another user is
// using them. resize: change its CPUs and RAM within their maximum. edit, delete: change or delete
// its definition. create: create VMs from its definition. *: all actions.
//
// +kubebuilder:validation:Enum=start;stop;reset;accessConsole;takeConsole;resize;edit;create;delete;"*"
type Action string
