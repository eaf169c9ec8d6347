package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// VM is the hardware of a virtual machine.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maximumCpus) || !has(self.cpuTopology)",message="set either maximumCpus or cpuTopology"
// +kubebuilder:validation:XValidation:rule="!has(self.currentCpus) || !has(self.maximumCpus) || self.currentCpus <= self.maximumCpus",fieldPath=".currentCpus",message="must be at most maximumCpus"
// +kubebuilder:validation:XValidation:rule="!has(self.currentCpus) || !has(self.cpuTopology) || self.currentCpus <= (self.cpuTopology.sockets > 0 ? self.cpuTopology.sockets : 1) * (self.cpuTopology.diesPerSocket > 0 ? self.cpuTopology.diesPerSocket : 1) * (self.cpuTopology.coresPerDie > 0 ? self.cpuTopology.coresPerDie : 1) * (self.cpuTopology.threadsPerCore > 0 ? self.cpuTopology.threadsPerCore : 1)",fieldPath=".currentCpus",message="must be at most the number of CPUs of cpuTopology"
// +kubebuilder:validation:XValidation:rule="!has(self.currentRam) || !has(self.maximumRam) || !isQuantity(string(self.currentRam)) || !isQuantity(string(self.maximumRam)) || quantity(string(self.currentRam)).compareTo(quantity(string(self.maximumRam))) <= 0",fieldPath=".currentRam",message="must be at most maximumRam"
type VM struct {
	// Desired state of the VM: Running or Stopped. Stopped asks the guest to shut down. Defaults to
	// the state that spec.runPolicy requires; without a run policy, Stopped.
	//
	// +optional
	State State `json:"state,omitempty"`
	// UUID of the machine. Defaults to a UUID that is generated at the first start and then kept.
	//
	// +optional
	// +kubebuilder:validation:Format=uuid
	MachineUUID string `json:"machineUuid,omitempty"`
	// Whether the VM has an emulated TPM 2.0. Defaults to the class's value, otherwise false.
	//
	// +optional
	UseTPM *bool `json:"useTpm,omitempty"`
	// Firmware of the VM: bios, uefi, uefi-4m (UEFI with the larger flash), secure or secure-4m
	// (the same with Secure Boot). Defaults to the class's value, otherwise uefi.
	//
	// +optional
	// +kubebuilder:validation:Enum=bios;uefi;uefi-4m;secure;secure-4m
	Firmware string `json:"firmware,omitempty"`
	// Whether the firmware shows its boot menu. Defaults to the class's value, otherwise false.
	//
	// +optional
	BootMenu *bool `json:"bootMenu,omitempty"`
	// Seconds that the guest has to shut down before it is stopped forcibly, 0 to 86400. Defaults
	// to the class's value, otherwise 900. It can change while the VM is running, but an increase
	// takes effect at the next start: the pod's grace period, which is 35 seconds longer, is set
	// when the pod is created.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	PowerdownTimeout *int32 `json:"powerdownTimeout,omitempty"`
	// How the guest's code is executed. kvm: with KVM, which requires /dev/kvm on the node. tcg: by
	// emulation, which is much slower. auto: with KVM if it works, otherwise by emulation. none:
	// QEMU's default, which is emulation. Defaults to the class's value, otherwise auto.
	//
	// +optional
	// +kubebuilder:validation:Enum=auto;kvm;tcg;none
	Accelerator string `json:"accelerator,omitempty"`
	// CPU model of QEMU (see qemu-system-x86_64 -cpu help). Defaults to the class's CPU, otherwise
	// host, the node's CPU; with emulation, all features that can be emulated.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	CPUModel string `json:"cpuModel,omitempty"`
	// Maximum number of CPUs, 1 to 4096. Set either maximumCpus or cpuTopology. Defaults to what the
	// VM type decides, otherwise to currentCpus or 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	MaximumCPUs *int32 `json:"maximumCpus,omitempty"`
	// Arrangement of the CPUs, as an alternative to maximumCpus. The maximum number of CPUs is the
	// product of its values.
	//
	// +optional
	CPUTopology *CPUTopology `json:"cpuTopology,omitempty"`
	// Number of CPUs visible to the guest, at least 1. It can change while the VM is running.
	// Defaults to what the VM type decides, otherwise to the maximum number of CPUs.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	CurrentCPUs *int32 `json:"currentCpus,omitempty"`
	// Memory of the machine, such as 8Gi or 512Mi; at least 1Mi, rounded down to whole Mi. A number
	// without a unit is in bytes. Defaults to what the VM type decides, otherwise 1Gi.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a size such as 8Gi or 512Mi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be at least 1Mi; a number without a unit counts bytes"
	MaximumRAM *resource.Quantity `json:"maximumRam,omitempty"`
	// Memory that the guest may use, such as 4Gi; at least 1Mi and at most maximumRam. It can
	// change while the VM is running, if the guest loads the driver virtio_balloon. Defaults to
	// maximumRam.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="must be a size such as 8Gi or 512Mi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be at least 1Mi; a number without a unit counts bytes"
	CurrentRAM *resource.Quantity `json:"currentRam,omitempty"`
	// Initial value of the machine's clock: utc, localtime, or a time such as 2026-01-31 or
	// 2026-01-31T12:00:00. Defaults to the class's value, otherwise utc.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^(utc|localtime|[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2})?)$')",message="must be utc, localtime, or a time such as 2026-01-31 or 2026-01-31T12:00:00"
	// +kubebuilder:validation:MaxLength=64
	RTCBase string `json:"rtcBase,omitempty"`
	// Clock that the machine's clock follows. rt: the node's monotonic clock. host: the node's
	// clock including all corrections. vm: the time that the guest has been running. Defaults to
	// the class's value, otherwise rt.
	//
	// +optional
	// +kubebuilder:validation:Enum=host;rt;vm
	RTCClock string `json:"rtcClock,omitempty"`
	// Linux kernel to boot directly, without firmware or boot loader.
	//
	// +optional
	Kernel *Kernel `json:"kernel,omitempty"`
	// Network interfaces of the VM. Defaults to the class's networks, otherwise none. An empty list means none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Networks []Network `json:"networks,omitzero"`
	// Disks and CD drives of the VM. Defaults to none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.filter(d, has(d.volumeClaimTemplate) && has(d.volumeClaimTemplate.metadata) && has(d.volumeClaimTemplate.metadata.name)).all(d, self.exists_one(e, has(e.volumeClaimTemplate) && has(e.volumeClaimTemplate.metadata) && has(e.volumeClaimTemplate.metadata.name) && e.volumeClaimTemplate.metadata.name == d.volumeClaimTemplate.metadata.name))",message="two disks have the same name"
	// +kubebuilder:validation:XValidation:rule="self.filter(d, has(d.bootindex)).all(d, self.exists_one(e, has(e.bootindex) && e.bootindex == d.bootindex))",message="two disks have the same bootindex"
	Disks []Disk `json:"disks,omitempty"`
	// Display of the VM. Defaults to the class's display, otherwise SPICE on port 5900.
	//
	// +optional
	Display *Display `json:"display,omitempty"`
	// Further settings of the VM type, which declares and validates them (see vmrunner vmtype
	// explain). Each option defaults to the class's value.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Options *runtime.RawExtension `json:"options,omitempty"`
}

// State is the desired state of a VM.
//
// +kubebuilder:validation:Enum=Stopped;Running
type State string

// The states that a VM can be set to.
const (
	Stopped State = "Stopped"
	Running State = "Running"
)

// CPUTopology is the arrangement of CPUs. With 0 QEMU chooses the number.
type CPUTopology struct {
	// Number of sockets, 0 to 4096. With 0 QEMU chooses the number. Defaults to 1.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	Sockets int32 `json:"sockets,omitempty"`
	// Number of dies per socket, 0 to 4096. With 0 QEMU chooses the number. Defaults to 0.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	DiesPerSocket int32 `json:"diesPerSocket,omitempty"`
	// Number of cores per die, 0 to 4096. With 0 QEMU chooses the number. Defaults to 0.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	CoresPerDie int32 `json:"coresPerDie,omitempty"`
	// Number of threads per core, 0 to 4096. With 0 QEMU chooses the number. Defaults to 0.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	ThreadsPerCore int32 `json:"threadsPerCore,omitempty"`
}

// Kernel is a Linux kernel that QEMU loads directly. Both files are in the image repository.
type Kernel struct {
	// File name of the kernel in the image repository, such as vmlinuz.
	//
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// File name of the initial RAM disk in the image repository.
	//
	// +optional
	Initrd string `json:"initrd,omitempty"`
	// Command line of the kernel, such as console=ttyS0.
	//
	// +optional
	CommandLine string `json:"commandLine,omitempty"`
}

// Network is a network interface and the network behind it. Set exactly one of tap, user and
// masquerade.
//
// +kubebuilder:validation:XValidation:rule="[has(self.tap), has(self.user), has(self.masquerade)].filter(x, x).size() == 1",message="set exactly one of tap, user and masquerade"
type Network struct {
	// Interface on a bridge of the node. The guest is in the bridge's network, and its pod uses the
	// node's network.
	//
	// +optional
	Tap *Tap `json:"tap,omitempty"`
	// QEMU's user-mode network. The guest can reach what the pod can reach, and is reachable
	// through ports. It requires no privileges. Use {} for the defaults.
	//
	// +optional
	User *UserNetwork `json:"user,omitempty"`
	// Private network behind the pod's address, provided by the kernel. Compared to user it is
	// faster, supports ping, and forwards all ports of the pod's address to the guest, except the
	// runner's own. Use {} for the defaults.
	//
	// +optional
	Masquerade *PrivateNetwork `json:"masquerade,omitempty"`
	// State of the virtual cable. down unplugs it. It changes while the VM is running.
	//
	// +optional
	// +kubebuilder:validation:Enum=up;down
	Link string `json:"link,omitempty"`
}

// Tap is an interface on a bridge of the node.
type Tap struct {
	// Model of the network card in QEMU, such as e1000e. Defaults to virtio-net.
	//
	// +kubebuilder:default=virtio-net
	Device string `json:"device,omitempty"`
	// Name of a bridge on the node, which must exist. Defaults to br0.
	//
	// +kubebuilder:default=br0
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^/ ]{1,15}$')",message="must be the name of a bridge, such as br0: at most 15 characters, no / and no space"
	// +kubebuilder:validation:MaxLength=64
	Bridge string `json:"bridge,omitempty"`
	// MAC address, such as 02:00:00:00:00:01. Defaults to an address that is computed from the
	// machine's UUID.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$')",message="must be six bytes such as 02:00:00:00:00:01"
	// +kubebuilder:validation:MaxLength=64
	MAC string `json:"mac,omitempty"`
}

// UserNetwork is QEMU's user-mode network.
type UserNetwork struct {
	// Model of the network card in QEMU, such as e1000e. Defaults to virtio-net.
	//
	// +kubebuilder:default=virtio-net
	Device string `json:"device,omitempty"`
	// IPv4 subnet of the guest. Defaults to 10.0.2.0/24.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,3}[.]){3}[0-9]{1,3}/[0-9]{1,2}$')",message="must be an IPv4 subnet such as 10.0.2.0/24"
	// +kubebuilder:validation:MaxLength=64
	Net string `json:"net,omitempty"`
	// Ports of the pod's address that lead to the guest. They can change while the VM is running.
	//
	// +optional
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=256
	Ports []Port `json:"ports,omitempty"`
	// Whether the guest can reach services on loopback addresses of the pod, such as sidecars.
	// Defaults to false.
	//
	// +optional
	HostLoopback *bool `json:"hostLoopback,omitempty"`
}

// Port forwards a port of the pod to a port of the guest.
//
// +kubebuilder:validation:XValidation:rule="self.port != 7443 || self.protocol != 'TCP'",fieldPath=".port",message="7443 is the runner's own port, by which the manager reaches it; choose another"
type Port struct {
	// Port of the pod's address, 1 to 65535. TCP port 7443 is reserved for the runner.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Port in the guest, 1 to 65535. Defaults to the same number as port.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Guest int32 `json:"guest,omitempty"`
	// Protocol of the port: TCP or UDP. Defaults to TCP.
	//
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// PrivateNetwork is a network of a single VM, provided by the kernel.
type PrivateNetwork struct {
	// Model of the network card in QEMU, such as e1000e. Defaults to virtio-net.
	//
	// +kubebuilder:default=virtio-net
	Device string `json:"device,omitempty"`
	// IPv4 subnet of the guest. Defaults to 10.0.2.0/24.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,3}[.]){3}[0-9]{1,3}/[0-9]{1,2}$')",message="must be an IPv4 subnet such as 10.0.2.0/24"
	// +kubebuilder:validation:MaxLength=64
	Net string `json:"net,omitempty"`
}

// Disk is a disk or a CD drive. Set exactly one of volumeClaimTemplate, cdrom and virtualDisk.
//
// +kubebuilder:validation:XValidation:rule="[has(self.volumeClaimTemplate), has(self.cdrom), has(self.virtualDisk)].filter(x, x).size() == 1",message="set exactly one of volumeClaimTemplate, cdrom and virtualDisk"
type Disk struct {
	// Template of the disk's PersistentVolumeClaim. The claim is created if it doesn't exist, and
	// is kept when the VM is deleted.
	//
	// +optional
	VolumeClaimTemplate *VolumeClaimTemplate `json:"volumeClaimTemplate,omitempty"`
	// CD drive. Its medium can change while the VM is running.
	//
	// +optional
	CDROM *CDROM `json:"cdrom,omitempty"`
	// VirtualDisk, which has its own lifecycle. Another VM can use it when this VM has no pod.
	//
	// +optional
	VirtualDisk *VirtualDiskRef `json:"virtualDisk,omitempty"`
	// Position in the boot order, from 0; lower numbers are tried first. Devices without a
	// bootindex are tried last.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Bootindex *int32 `json:"bootindex,omitempty"`

	DiskTuning `json:",inline"`
}

// VolumeClaimTemplate describes a PersistentVolumeClaim.
type VolumeClaimTemplate struct {
	// Metadata of the claim.
	//
	// +optional
	Metadata ClaimMetadata `json:"metadata,omitempty"`
	// Desired volume of the claim. Without volumeMode it is a Block volume.
	Spec ClaimSpec `json:"spec"`
}

// ClaimMetadata is the part of a claim's metadata that can be set.
type ClaimMetadata struct {
	// Name of the disk, which is part of the claim's name: <name>-disk-<vm>-0. Defaults to the
	// disk's position in the list: disk-<n>-<vm>-0.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must consist of a-z, 0-9 and -, such as system: the name of the claim contains it"
	Name string `json:"name,omitempty"`
	// Labels of the claim, in addition to the manager's labels.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the claim.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ClaimSpec describes the volume of a claim, with defaults for disks.
type ClaimSpec struct {
	// Access modes of the volume. Defaults to [ReadWriteOnce].
	//
	// +kubebuilder:default={ReadWriteOnce}
	// +listType=atomic
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	// Label selector for existing volumes.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Required size of the volume in requests.storage, such as 40Gi. Increasing it expands the
	// claim, if its storage class allows it. Required for a new claim.
	//
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// Name of an existing volume.
	//
	// +optional
	VolumeName string `json:"volumeName,omitempty"`
	// Name of the storage class. Defaults to the cluster's default storage class. "" selects no
	// storage class.
	//
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
	// Mode of the volume. Block: the disk is the volume itself. Filesystem: the disk is the raw
	// image disk.img in the volume, which is created if it doesn't exist. Defaults to Block.
	//
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Filesystem
	VolumeMode *corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// Claim or snapshot to fill a new volume with.
	//
	// +optional
	DataSource *corev1.TypedLocalObjectReference `json:"dataSource,omitempty"`
	// Same as dataSource, for other kinds and namespaces.
	//
	// +optional
	DataSourceRef *corev1.TypedObjectReference `json:"dataSourceRef,omitempty"`
	// Name of the VolumeAttributesClass of the volume.
	//
	// +optional
	VolumeAttributesClassName *string `json:"volumeAttributesClassName,omitempty"`
}

// CDROM is a CD drive.
type CDROM struct {
	// File in the image repository, such as debian.iso, or a URL. "" is an empty drive.
	Image string `json:"image"`
}

// Display defines how the screen can be reached.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spice) || !has(self.vnc) || !has(self.vnc.port) || self.spice.port != self.vnc.port",message="spice and vnc have the same port"
type Display struct {
	// Number of monitors, 1 to 16. Defaults to 1.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Outputs int32 `json:"outputs,omitempty"`
	// Name of the user that the log-in agent in the guest logs in. Defaults to none.
	//
	// +optional
	LoggedInUser string `json:"loggedInUser,omitempty"`
	// SPICE server for the screen.
	//
	// +optional
	Spice *Spice `json:"spice,omitempty"`
	// VNC server for the screen.
	//
	// +optional
	VNC *VNC `json:"vnc,omitempty"`
}

// Spice is a SPICE server.
type Spice struct {
	// Port of the server, 1 to 65535. Defaults to 5900.
	//
	// +kubebuilder:default=5900
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// VM-Operator's host for viewers. Ignored: viewers connect through the manager.
	//
	// +optional
	Server string `json:"server,omitempty"`
	// Whether the manager creates a display secret with a random, expired password if there is
	// none. If false and there is no secret, everyone who can reach the pod can see the screen.
	// Defaults to true.
	//
	// +kubebuilder:default=true
	GenerateSecret *bool `json:"generateSecret,omitempty"`
	// VM-Operator's proxy for viewers. Ignored: viewers connect through the manager.
	//
	// +optional
	ProxyURL string `json:"proxyUrl,omitempty"`
	// Parts of the screen that are sent as video: off, all, or filter (parts that look like video).
	// Defaults to off, QEMU's default.
	//
	// +optional
	// +kubebuilder:validation:Enum=off;all;filter
	StreamingVideo string `json:"streamingVideo,omitempty"`
	// Number of client USB devices that the guest can use, 0 to 14. Defaults to 2.
	//
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=14
	USBRedirects *int32 `json:"usbRedirects,omitempty"`
}

// VNC is a VNC server.
type VNC struct {
	// Port of the server, 5900 to 65535. By default the server has no port, only a socket in the
	// pod for vmrunner vnc.
	//
	// +optional
	// +kubebuilder:validation:Minimum=5900
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}
