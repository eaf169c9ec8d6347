package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A VirtualMachine is a VM that runs in a pod, with its disks.
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

	// Spec is the definition of the VM.
	//
	// +required
	Spec VirtualMachineSpec `json:"spec,omitzero"`
	// Status is what the VM is, as its runner and the manager see it.
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
	// VM is the machine.
	VM VM `json:"vm"`
	// BlockDeviceRefs are further disks of the VM, which outlive it, in the order of booting.
	// They come after those of vm.disks that have a bootindex. A VM waits until all are ready.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(d, self.exists_one(e, e.kind == d.kind && e.name == d.name))",message="two entries name the same block device"
	// +kubebuilder:validation:XValidation:rule="self.filter(d, has(d.bootOrder)).all(d, self.exists_one(e, has(e.bootOrder) && e.bootOrder == d.bootOrder))",message="two entries have the same bootOrder"
	BlockDeviceRefs []BlockDeviceRef `json:"blockDeviceRefs,omitempty"`
	// DataSource is what the VM's own volumes are made of: those of vm.disks with a
	// volumeClaimTemplate, and the runner's data. It counts for a volume whose claim isn't there
	// yet. Default: they are empty.
	//
	// +optional
	DataSource *VirtualMachineDataSource `json:"dataSource,omitempty"`
	// ClaimNameSuffix is what the names of the claims of those volumes end in, after a dot. With another one
	// the VM has other volumes at its next start: claims of these names if there are any, otherwise
	// new ones of the dataSource. The claims that it had stay, and are its own again with the
	// suffix that it had. Default: none, and no dot.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClaimNameSuffix string `json:"claimNameSuffix,omitempty"`
	// VirtualMachineClassName is the name of a VirtualMachineClass: what the VM leaves out is
	// as the class says, and its size must be one that the class allows. A change takes
	// effect at the next start. Default: for a new VM the default class, if there is one.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want the name of a VirtualMachineClass, such as generic"
	VirtualMachineClassName string `json:"virtualMachineClassName,omitempty"`
	// CPU is how much of its CPUs the VM gets.
	//
	// +optional
	CPU *CPU `json:"cpu,omitempty"`
	// VMType is the VM type, which computes QEMU's arguments. Default: the class's, else
	// standard.
	//
	// +optional
	VMType VMType `json:"vmType,omitzero"`
	// RunnerTemplate is VM-Operator's equivalent of vmType. VM-Operator's own template
	// means the type standard; with another one the VM is not started until vmType names
	// the type that replaces it.
	//
	// +optional
	RunnerTemplate *RunnerTemplate `json:"runnerTemplate,omitempty"`
	// Image is the container image of the runner. Default: the manager's.
	//
	// +optional
	Image *Image `json:"image,omitempty"`
	// RunPolicy says when the VM runs. AlwaysOn: always, it can't be stopped.
	// AlwaysOnUnlessStoppedManually: from its creation on, until it is stopped or the guest
	// shuts itself down; a crash starts it again. Manual: when it is started; after a
	// shutdown or a crash it stays off. AlwaysOff: never. Stopped means that vm.state is
	// Stopped, which defaults to the policy. Default: vm.state and guestShutdownStops say it.
	//
	// +optional
	RunPolicy RunPolicy `json:"runPolicy,omitempty"`
	// EvictionStrategy says what becomes of the VM when its pod is to be evicted, as by kubectl drain.
	// LiveMigrate: the guest moves to another node, and the eviction waits for that, whatever it
	// takes. LiveMigrateIfPossible: it moves; one that can't is shut down. Shutdown: it is shut down,
	// and started on another node. Default: Shutdown.
	//
	// +optional
	EvictionStrategy EvictionStrategy `json:"evictionStrategy,omitempty"`
	// Migration says how the guest moves to another node.
	//
	// +optional
	Migration *MigrationPolicy `json:"migration,omitempty"`
	// Disruptions are how the VM may be interrupted.
	//
	// +optional
	Disruptions *Disruptions `json:"disruptions,omitempty"`
	// GuestShutdownStops sets vm.state to Stopped when the guest shuts itself down.
	// Default: false, the VM is started again. A runPolicy says it in its place.
	//
	// +kubebuilder:default=false
	GuestShutdownStops bool `json:"guestShutdownStops,omitempty"`
	// ResetCounter resets the VM whenever it becomes larger. Default: 0.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	ResetCounter *int64 `json:"resetCounter,omitempty"`
	// CloudInit is data for cloud-init in the guest (NoCloud), at most nearly 1 MiB. All
	// users who can read the VM can read it. Default: none.
	//
	// +optional
	CloudInit *CloudInit `json:"cloudInit,omitempty"`
	// Provisioning is what the guest configures itself from, as in Deckhouse: user-data for
	// cloud-init, or answer files of Windows Setup. It excludes cloudInit. Default: none.
	//
	// +optional
	Provisioning *Provisioning `json:"provisioning,omitempty"`
	// LoadBalancerService changes the labels and annotations of the service by which the
	// display is reached; an empty one removes the service.
	//
	// +optional
	LoadBalancerService *LoadBalancerService `json:"loadBalancerService,omitempty"`

	// VirtualMachineIPAddressName is the VirtualMachineIPAddress whose address the VM's first
	// tap has from its next start on. Default: the manager makes one, if virtualMachineCIDRs
	// of its configuration has ranges.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want the name of a VirtualMachineIPAddress in the VM's namespace (kubectl get vmip)"
	// +kubebuilder:validation:MaxLength=63
	VirtualMachineIPAddressName string `json:"virtualMachineIPAddressName,omitempty"`

	// Resources of the pod. Default: requests that are computed from the current CPUs and
	// RAM, the manager's overcommit, and QEMU's own needs.
	//
	// +optional
	Resources *Resources `json:"resources,omitempty"`
	// NodeName is the node to run on; the scheduler is not asked. Default: the scheduler
	// chooses.
	//
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// NodeSelector is that of the pod: labels of the nodes that the VM may run on.
	//
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Affinity says near which nodes, VMs and pods the VM is to run.
	//
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`
	// Tolerations are those of the pod (kubectl explain pod.spec.tolerations).
	//
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// TopologySpreadConstraints are those of the pod (kubectl explain
	// pod.spec.topologySpreadConstraints).
	//
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// PriorityClassName is that of the pod: the name of a PriorityClass.
	//
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// Permissions are what users and roles may do with the VM by the manager's pages and its
	// API. They add up. They limit no one who may change the VM by other means, such as
	// kubectl.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	Permissions []Permission `json:"permissions,omitempty"`
	// Pools are the VmPools that the VM belongs to. Users with permissions of a pool may get the VM.
	//
	// +optional
	Pools []string `json:"pools,omitempty"`
	// LoggingProperties say what the runner logs, in the form of java.util.logging, such as
	// .level=WARNING. They take effect at the next start. Default: those of the manager's
	// configuration.
	//
	// +optional
	LoggingProperties string `json:"loggingProperties,omitempty"`
}

// CPU is how much of its CPUs a VM gets.
type CPU struct {
	// CoreFraction is how much of each of vm.maximumCpus the VM is sure to get, from 1% to
	// 100%, such as 20%; it gets more while no other pod needs it. The pod requests so much,
	// and is limited to vm.maximumCpus; with 100% its memory is reserved, too. Default: the
	// class's, else what the manager's overcommit leaves, without a limit.
	//
	// +optional
	CoreFraction CoreFraction `json:"coreFraction,omitempty"`
}

// RunnerTemplate names a FreeMarker template of VM-Operator.
type RunnerTemplate struct {
	// Source is the name of the template.
	//
	// +optional
	Source string `json:"source,omitempty"`
	// Update is that of vmType.
	//
	// +optional
	Update *bool `json:"update,omitempty"`
}

// VMType is a VM type, which computes QEMU's arguments.
//
// +kubebuilder:validation:XValidation:rule="!has(self.image) || !has(self.configMap)",fieldPath=".image",message="configMap is given as well: leave one of the two out"
// +kubebuilder:validation:XValidation:rule="!has(self.image) || has(self.source)",fieldPath=".image",message="wants source as well, the name of a type that it has"
// +kubebuilder:validation:XValidation:rule="has(self.image) || !has(self.imagePullSecret) && !has(self.caBundle)",fieldPath=".image",message="imagePullSecret and caBundle are for an image"
type VMType struct {
	// Source is the name of the type: standard, cloud, windows, microvm, pc, arm64, or one of
	// a ConfigMap or an image. Default: the class's, else standard.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][-_.a-zA-Z0-9]*$')",message="want the name of a VM type, such as standard: letters, digits, -, _ and ., no path"
	// +kubebuilder:validation:MaxLength=63
	Source string `json:"source,omitempty"`
	// Update makes the VM use the newest version of the type at each start; with false it
	// keeps the version of its first start. Default: the class's, else true.
	//
	// +optional
	Update *bool `json:"update,omitempty"`
	// ConfigMap is the name of a ConfigMap with modules of custom types. Default: the
	// vmTypesConfigMap of the manager's configuration.
	//
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
	// Image is a VM type in a registry (vmrunner vmtype push), as REGISTRY/NAME:TAG, or @sha256:…
	// instead of the tag. The manager's configuration (trustedVMTypeImages) says from where. What a
	// tag means is looked up at each start, or with update: false once. It is none of VM-Operator's
	// fields.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][^ ]*$')",message="want the name of a VM type in a registry, such as registry.example.org/types/asset:1.2"
	Image string `json:"image,omitempty"`
	// ImagePullSecret is a Secret of the type kubernetes.io/dockerconfigjson, for the image.
	//
	// +optional
	ImagePullSecret *LocalSecretRef `json:"imagePullSecret,omitempty"`
	// CABundle has authorities that are trusted beside the well-known ones for the image's
	// registry, as PEM, encoded by base64.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	CABundle []byte `json:"caBundle,omitempty"`
}

// VMTypeImage is a VM type in a registry.
type VMTypeImage struct {
	// Image is the reference, as in spec.vmType.image.
	Image string `json:"image"`
	// Digest is that of the manifest, sha256:….
	Digest string `json:"digest"`
}

// Image names a container image.
//
// +kubebuilder:validation:XValidation:rule="has(self.source) != (has(self.repository) && has(self.path))",message="want either source, or repository and path"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || !has(self.version)",message="version belongs to repository and path; write it into source"
type Image struct {
	// Source is the full name of the image.
	//
	// +optional
	Source string `json:"source,omitempty"`
	// Repository is the registry's host and the beginning of the name.
	//
	// +optional
	Repository string `json:"repository,omitempty"`
	// Path is the rest of the name.
	//
	// +optional
	Path string `json:"path,omitempty"`
	// Version is the tag.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// PullPolicy is that of the pod's container: Always, IfNotPresent or Never. Default:
	// Always for the tag latest, else IfNotPresent.
	//
	// +optional
	// +kubebuilder:validation:Enum=Always;Never;IfNotPresent
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
}

// CloudInit is data for cloud-init.
//
// +kubebuilder:validation:XValidation:rule="!has(self.networkConfig) || !has(self.networkDataFrom)",fieldPath=".networkDataFrom",message="networkConfig is given as well: leave one of the two out"
type CloudInit struct {
	// MetaData: instance-id and local-hostname are added where they are missing.
	//
	// +optional
	MetaData map[string]string `json:"metaData,omitempty"`
	// UserData is a mapping, to which the line #cloud-config is added; or a text, such as a
	// script (#!/bin/sh) or a MIME message. A text that begins with none of cloud-init's
	// headers is a cloud-config.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	UserData *runtime.RawExtension `json:"userData,omitempty"`
	// UserDataFrom is a Secret with userData as a text. It excludes userData.
	//
	// +optional
	UserDataFrom *DataSource `json:"userDataFrom,omitempty"`
	// NetworkDataFrom is a Secret with the network configuration as YAML. It excludes
	// networkConfig.
	//
	// +optional
	NetworkDataFrom *DataSource `json:"networkDataFrom,omitempty"`
	// VendorData is as userData. What userData says takes precedence.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	VendorData *runtime.RawExtension `json:"vendorData,omitempty"`
	// NetworkConfig is cloud-init's network configuration.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	NetworkConfig *runtime.RawExtension `json:"networkConfig,omitempty"`
}

// LoadBalancerService changes the labels and annotations of the manager's configuration;
// null removes one.
type LoadBalancerService struct {
	// Labels of the service.
	//
	// +optional
	// +nullable
	Labels map[string]*Entry `json:"labels,omitempty"`
	// Annotations of the service.
	//
	// +optional
	// +nullable
	Annotations map[string]*Entry `json:"annotations,omitempty"`
}

// Entry is a value, or null.
type Entry string

// Resources are requests and limits, of the pod's container or of a claim.
type Resources struct {
	// Limits are what cannot be exceeded.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(string(self[k])))",message="want quantities: a size such as 40Gi or 512Mi, or a number of CPUs such as 2 or 500m"
	Limits corev1.ResourceList `json:"limits,omitempty"`
	// Requests are what is reserved.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(k, isQuantity(string(self[k])))",message="want quantities: a size such as 40Gi or 512Mi, or a number of CPUs such as 2 or 500m"
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// Permission is what a user, or all users with a role, may do.
//
// +kubebuilder:validation:XValidation:rule="has(self.user) != has(self.role)",message="want either user or role"
type Permission struct {
	// User is a user's name.
	//
	// +optional
	User string `json:"user,omitempty"`
	// Role is the name of a role.
	//
	// +optional
	Role string `json:"role,omitempty"`
	// May lists what is allowed. A user who may do anything with a VM also sees it.
	//
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=16
	May []Action `json:"may,omitempty"`
}

// Action is what a user may do with a VM: start, stop or reset it; see and use its screen
// and console (accessConsole), also when another user does (takeConsole); change its
// CPUs and RAM within their maximum (resize); change or delete its definition (edit, delete);
// make VMs from its definition (create); or all of that (*).
//
// +kubebuilder:validation:Enum=start;stop;reset;accessConsole;takeConsole;resize;edit;create;delete;"*"
type Action string
