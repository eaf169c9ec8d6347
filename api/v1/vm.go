package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// VM is the machine.
//
// +kubebuilder:validation:XValidation:rule="has(self.maximumCpus) != has(self.cpuTopology)",message="want either maximumCpus or cpuTopology"
// +kubebuilder:validation:XValidation:rule="!has(self.currentCpus) || !has(self.maximumCpus) || self.currentCpus <= self.maximumCpus",fieldPath=".currentCpus",message="must be at most maximumCpus"
// +kubebuilder:validation:XValidation:rule="!has(self.currentCpus) || !has(self.cpuTopology) || self.currentCpus <= (self.cpuTopology.sockets > 0 ? self.cpuTopology.sockets : 1) * (self.cpuTopology.diesPerSocket > 0 ? self.cpuTopology.diesPerSocket : 1) * (self.cpuTopology.coresPerDie > 0 ? self.cpuTopology.coresPerDie : 1) * (self.cpuTopology.threadsPerCore > 0 ? self.cpuTopology.threadsPerCore : 1)",fieldPath=".currentCpus",message="must be at most the number of CPUs of cpuTopology"
// +kubebuilder:validation:XValidation:rule="!has(self.currentRam) || !isQuantity(string(self.currentRam)) || !isQuantity(string(self.maximumRam)) || quantity(string(self.currentRam)).compareTo(quantity(string(self.maximumRam))) <= 0",fieldPath=".currentRam",message="must be at most maximumRam"
// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self.maximumRam)) || quantity(string(self.maximumRam)).compareTo(quantity('1Mi')) >= 0",fieldPath=".maximumRam",message="must be at least 1Mi"
// +kubebuilder:validation:XValidation:rule="!has(self.currentRam) || !isQuantity(string(self.currentRam)) || quantity(string(self.currentRam)).compareTo(quantity('1Mi')) >= 0",fieldPath=".currentRam",message="must be at least 1Mi"
type VM struct {
	// State is whether the VM shall run.
	//
	// +kubebuilder:default=Stopped
	State State `json:"state,omitempty"`
	// MachineUUID is the machine's uuid. Absent: made at the first start, and
	// kept.
	//
	// +optional
	// +kubebuilder:validation:Format=uuid
	MachineUUID string `json:"machineUuid,omitempty"`
	// UseTPM adds a TPM 2.0.
	//
	// +kubebuilder:default=false
	UseTPM bool `json:"useTpm,omitempty"`
	// Firmware is what the guest boots from.
	//
	// +kubebuilder:default=uefi
	// +kubebuilder:validation:Enum=bios;uefi;uefi-4m;secure;secure-4m
	Firmware string `json:"firmware,omitempty"`
	// BootMenu shows the firmware's boot menu.
	//
	// +kubebuilder:default=false
	BootMenu bool `json:"bootMenu,omitempty"`
	// PowerdownTimeout is how many seconds the guest has to shut down before it
	// is stopped by force. It can change while the VM runs; but the pod's grace
	// period, which is 20 seconds longer, is that of its start.
	//
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	PowerdownTimeout *int32 `json:"powerdownTimeout,omitempty"`
	// Accelerator runs the guest's code: kvm needs it on the node, tcg emulates,
	// auto takes what there is. An addition of this project.
	//
	// +optional
	// +kubebuilder:validation:Enum=auto;kvm;tcg;none
	Accelerator string `json:"accelerator,omitempty"`
	// CPUModel is one of QEMU's.
	//
	// +kubebuilder:default=host
	// +kubebuilder:validation:MinLength=1
	CPUModel string `json:"cpuModel,omitempty"`
	// MaximumCPUs is how many CPUs the machine can have.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	MaximumCPUs *int32 `json:"maximumCpus,omitempty"`
	// CPUTopology says how the CPUs are arranged; the machine can have as many
	// as there are places.
	//
	// +optional
	CPUTopology *CPUTopology `json:"cpuTopology,omitempty"`
	// CurrentCPUs is how many CPUs the guest has. It can change while the VM
	// runs. Absent: all.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	CurrentCPUs *int32 `json:"currentCpus,omitempty"`
	// MaximumRAM is the machine's memory, rounded down to whole MiB.
	//
	// +kubebuilder:default="1G"
	MaximumRAM *resource.Quantity `json:"maximumRam,omitempty"`
	// CurrentRAM is the memory that the guest may use. It can change while the VM
	// runs. Absent: all.
	//
	// +optional
	CurrentRAM *resource.Quantity `json:"currentRam,omitempty"`
	// RTCBase is what the machine's clock starts with: utc, localtime or a time.
	//
	// +kubebuilder:default=utc
	// +kubebuilder:validation:Pattern=`^(utc|localtime|[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2})?)$`
	RTCBase string `json:"rtcBase,omitempty"`
	// RTCClock is what the machine's clock follows.
	//
	// +kubebuilder:default=rt
	// +kubebuilder:validation:Enum=host;rt;vm
	RTCClock string `json:"rtcClock,omitempty"`
	// Kernel boots a Linux kernel directly. An addition of this project.
	//
	// +optional
	Kernel *Kernel `json:"kernel,omitempty"`
	// Networks are the machine's network interfaces.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Networks []Network `json:"networks,omitempty"`
	// Disks are the machine's disks and CD drives.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.filter(d, has(d.volumeClaimTemplate) && has(d.volumeClaimTemplate.metadata) && has(d.volumeClaimTemplate.metadata.name)).all(d, self.exists_one(e, has(e.volumeClaimTemplate) && has(e.volumeClaimTemplate.metadata) && has(e.volumeClaimTemplate.metadata.name) && e.volumeClaimTemplate.metadata.name == d.volumeClaimTemplate.metadata.name))",message="two disks have the same name"
	// +kubebuilder:validation:XValidation:rule="self.filter(d, has(d.bootindex)).all(d, self.exists_one(e, has(e.bootindex) && e.bootindex == d.bootindex))",message="two disks have the same bootindex"
	Disks []Disk `json:"disks,omitempty"`
	// Display is how the screen can be reached.
	//
	// +kubebuilder:default={spice: {port: 5900}}
	Display *Display `json:"display,omitempty"`
	// Options are what the VM type takes beyond all this; the type declares and
	// checks them. An addition of this project.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Options *runtime.RawExtension `json:"options,omitempty"`
}

// State is whether a VM shall run.
//
// +kubebuilder:validation:Enum=Stopped;Running
type State string

// The states that a VM can be wished to have.
const (
	Stopped State = "Stopped"
	Running State = "Running"
)

// CPUTopology says how CPUs are arranged. 0 leaves a level to QEMU.
type CPUTopology struct {
	// Sockets of the machine.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	Sockets int32 `json:"sockets,omitempty"`
	// DiesPerSocket is how many dies a socket has.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	DiesPerSocket int32 `json:"diesPerSocket,omitempty"`
	// CoresPerDie is how many cores a die has.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	CoresPerDie int32 `json:"coresPerDie,omitempty"`
	// ThreadsPerCore is how many threads a core has.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4096
	ThreadsPerCore int32 `json:"threadsPerCore,omitempty"`
}

// Kernel is a Linux kernel that QEMU loads itself. Both files are in the image
// repository.
type Kernel struct {
	// Image of the kernel.
	//
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// Initrd is the initial RAM disk.
	//
	// +optional
	Initrd string `json:"initrd,omitempty"`
	// CommandLine of the kernel.
	//
	// +optional
	CommandLine string `json:"commandLine,omitempty"`
}

// Network is a network interface and what is behind it.
//
// +kubebuilder:validation:XValidation:rule="[has(self.tap), has(self.user), has(self.masquerade)].filter(x, x).size() == 1",message="want one of tap, user and masquerade"
type Network struct {
	// Tap is an interface at a bridge of the node.
	//
	// +optional
	Tap *Tap `json:"tap,omitempty"`
	// User is QEMU's user-mode network.
	//
	// +optional
	User *PrivateNetwork `json:"user,omitempty"`
	// Masquerade is a private network behind the pod's address. An addition of
	// this project.
	//
	// +optional
	Masquerade *PrivateNetwork `json:"masquerade,omitempty"`
}

// Tap is an interface at a bridge of the node.
type Tap struct {
	// Device is QEMU's network card.
	//
	// +kubebuilder:default=virtio-net
	Device string `json:"device,omitempty"`
	// Bridge of the node.
	//
	// +kubebuilder:default=br0
	// +kubebuilder:validation:Pattern=`^[^/ ]{1,15}$`
	Bridge string `json:"bridge,omitempty"`
	// MAC is the hardware address. Absent: computed from the machine's uuid.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$`
	MAC string `json:"mac,omitempty"`
}

// PrivateNetwork is a network of the VM's own.
type PrivateNetwork struct {
	// Device is QEMU's network card.
	//
	// +kubebuilder:default=virtio-net
	Device string `json:"device,omitempty"`
	// Net is the IPv4 subnet of the guest, as CIDR.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$`
	Net string `json:"net,omitempty"`
}

// Disk is a disk or a CD drive.
//
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplate) != has(self.cdrom)",message="want either volumeClaimTemplate or cdrom"
type Disk struct {
	// VolumeClaimTemplate describes the claim of a disk.
	//
	// +optional
	VolumeClaimTemplate *VolumeClaimTemplate `json:"volumeClaimTemplate,omitempty"`
	// CDROM is a CD drive.
	//
	// +optional
	CDROM *CDROM `json:"cdrom,omitempty"`
	// Bootindex orders the devices to boot from, lowest first.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Bootindex *int32 `json:"bootindex,omitempty"`
}

// VolumeClaimTemplate describes a persistent volume claim.
type VolumeClaimTemplate struct {
	// Metadata of the claim.
	//
	// +optional
	Metadata ClaimMetadata `json:"metadata,omitempty"`
	// Spec of the claim. A claim without a volumeMode is for a Block volume.
	Spec ClaimSpec `json:"spec"`
}

// ClaimMetadata is what of a claim's metadata can be given.
type ClaimMetadata struct {
	// Name of the disk, of which the claim's is made.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// Labels are added to those of the manager.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the claim.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ClaimSpec is that of a claim, with the default for disks.
type ClaimSpec struct {
	// AccessModes of the volume.
	//
	// +kubebuilder:default={ReadWriteOnce}
	// +listType=atomic
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	// Selector chooses among volumes.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Resources say how large the volume must be.
	//
	// +optional
	Resources corev1.VolumeResourceRequirements `json:"resources,omitempty"`
	// VolumeName is that of an existing volume.
	//
	// +optional
	VolumeName string `json:"volumeName,omitempty"`
	// StorageClassName: absent means the default class, "" none.
	//
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
	// VolumeMode of the volume. In one with a file system the disk is the raw image
	// disk.img, which is made if there is none.
	//
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Filesystem
	VolumeMode *corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// DataSource is what the volume is filled with.
	//
	// +optional
	DataSource *corev1.TypedLocalObjectReference `json:"dataSource,omitempty"`
	// DataSourceRef is what the volume is filled with.
	//
	// +optional
	DataSourceRef *corev1.TypedObjectReference `json:"dataSourceRef,omitempty"`
	// VolumeAttributesClassName is the class of what can change in a volume.
	//
	// +optional
	VolumeAttributesClassName *string `json:"volumeAttributesClassName,omitempty"`
}

// CDROM is a CD drive.
type CDROM struct {
	// Image is a file in the image repository, or a URL; "" is an empty drive.
	Image string `json:"image"`
}

// Display is how the screen can be reached.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spice) || !has(self.vnc) || !has(self.vnc.port) || self.spice.port != self.vnc.port",message="spice and vnc have the same port"
type Display struct {
	// Outputs is the number of monitors.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Outputs int32 `json:"outputs,omitempty"`
	// LoggedInUser is logged in by the agent in the guest.
	//
	// +optional
	LoggedInUser string `json:"loggedInUser,omitempty"`
	// Spice is a SPICE server.
	//
	// +optional
	Spice *Spice `json:"spice,omitempty"`
	// VNC is a VNC server. An addition of this project.
	//
	// +optional
	VNC *VNC `json:"vnc,omitempty"`
}

// Spice is a SPICE server.
type Spice struct {
	// Port it listens on.
	//
	// +kubebuilder:default=5900
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Server is the host for the connection file.
	//
	// +optional
	Server string `json:"server,omitempty"`
	// GenerateSecret makes the manager create a display secret with a random
	// password if there is none.
	//
	// +kubebuilder:default=true
	GenerateSecret *bool `json:"generateSecret,omitempty"`
	// ProxyURL is the proxy for the connection file.
	//
	// +optional
	ProxyURL string `json:"proxyUrl,omitempty"`
	// StreamingVideo is QEMU's -spice streaming-video.
	//
	// +optional
	// +kubebuilder:validation:Enum=off;all;filter
	StreamingVideo string `json:"streamingVideo,omitempty"`
	// USBRedirects is how many of the client's USB devices the guest can have.
	//
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=14
	USBRedirects *int32 `json:"usbRedirects,omitempty"`
}

// VNC is a VNC server.
type VNC struct {
	// Port it listens on, besides a socket of the runner's. Absent: only there.
	//
	// +optional
	// +kubebuilder:validation:Minimum=5900
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}
