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
type VM struct {
	// State of the VM: Running or Stopped. Setting it to Stopped asks the guest to shut
	// down. Default: as spec.runPolicy says; without one, Stopped.
	//
	// +optional
	State State `json:"state,omitempty"`
	// MachineUUID is the machine's uuid. Default: one that is generated at the first
	// start, and kept.
	//
	// +optional
	// +kubebuilder:validation:Format=uuid
	MachineUUID string `json:"machineUuid,omitempty"`
	// UseTPM adds an emulated TPM 2.0. Default: the class's, else false.
	//
	// +optional
	UseTPM *bool `json:"useTpm,omitempty"`
	// Firmware is what the guest boots from: bios, uefi, uefi-4m (UEFI with the larger
	// flash), secure or secure-4m (the same with secure boot). Default: the class's, else
	// uefi.
	//
	// +optional
	// +kubebuilder:validation:Enum=bios;uefi;uefi-4m;secure;secure-4m
	Firmware string `json:"firmware,omitempty"`
	// BootMenu shows the firmware's boot menu. Default: the class's, else false.
	//
	// +optional
	BootMenu *bool `json:"bootMenu,omitempty"`
	// PowerdownTimeout is how many seconds the guest has to shut down before it is
	// stopped by force, 0 to 86400. Default: the class's, else 900. It can change while the
	// VM is running, but the grace period of the pod, 35 seconds longer, is set when the pod
	// is created: a longer timeout takes effect at the next start.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	PowerdownTimeout *int32 `json:"powerdownTimeout,omitempty"`
	// Accelerator runs the guest's code: kvm needs /dev/kvm on the node, tcg emulates and
	// is much slower, auto uses kvm where it works, else tcg. none leaves the choice to
	// QEMU, which emulates. Default: the class's, else auto.
	//
	// +optional
	// +kubebuilder:validation:Enum=auto;kvm;tcg;none
	Accelerator string `json:"accelerator,omitempty"`
	// CPUModel is one of QEMU's (qemu-system-x86_64 -cpu help). Default: what the class says
	// about its CPU, else host, that of the node; with emulation, everything that can be
	// emulated.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	CPUModel string `json:"cpuModel,omitempty"`
	// MaximumCPUs is how many CPUs the machine can have, 1 to 4096. Either this or
	// cpuTopology is required.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4096
	MaximumCPUs *int32 `json:"maximumCpus,omitempty"`
	// CPUTopology is how the CPUs are arranged, in place of maximumCpus; the machine can
	// have as many as the topology has places.
	//
	// +optional
	CPUTopology *CPUTopology `json:"cpuTopology,omitempty"`
	// CurrentCPUs is how many CPUs the guest has, at least 1. It can change while the VM
	// is running. Default: all that the machine can have.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	CurrentCPUs *int32 `json:"currentCpus,omitempty"`
	// MaximumRAM is the machine's memory, such as 8Gi or 512Mi: at least 1Mi, rounded down
	// to whole Mi. A number without a unit counts bytes. Default: 1G.
	//
	// +kubebuilder:default="1G"
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="want a size such as 8Gi or 512Mi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be at least 1Mi; a number without a unit counts bytes"
	MaximumRAM *resource.Quantity `json:"maximumRam,omitempty"`
	// CurrentRAM is the memory that the guest may use, in the same form. It can change
	// while the VM is running, if the guest loads the driver virtio_balloon. Default:
	// maximumRam.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self))",message="want a size such as 8Gi or 512Mi"
	// +kubebuilder:validation:XValidation:rule="!isQuantity(string(self)) || quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="must be at least 1Mi; a number without a unit counts bytes"
	CurrentRAM *resource.Quantity `json:"currentRam,omitempty"`
	// RTCBase is what the machine's clock starts with: utc, localtime, or a time such as
	// 2026-01-31 or 2026-01-31T12:00:00. Default: the class's, else utc.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^(utc|localtime|[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}:[0-9]{2})?)$')",message="want utc, localtime, or a time such as 2026-01-31 or 2026-01-31T12:00:00"
	// +kubebuilder:validation:MaxLength=64
	RTCBase string `json:"rtcBase,omitempty"`
	// RTCClock is what the machine's clock follows: rt, the node's monotonic clock; host, its
	// clock with all corrections; vm, the time that the guest has been running. Default: the
	// class's, else rt.
	//
	// +optional
	// +kubebuilder:validation:Enum=host;rt;vm
	RTCClock string `json:"rtcClock,omitempty"`
	// Kernel boots a Linux kernel directly, without firmware or boot loader.
	//
	// +optional
	Kernel *Kernel `json:"kernel,omitempty"`
	// Networks are the machine's network interfaces. Default: the class's, else none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Networks []Network `json:"networks,omitempty"`
	// Disks are the machine's disks and CD drives. Default: none.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.filter(d, has(d.volumeClaimTemplate) && has(d.volumeClaimTemplate.metadata) && has(d.volumeClaimTemplate.metadata.name)).all(d, self.exists_one(e, has(e.volumeClaimTemplate) && has(e.volumeClaimTemplate.metadata) && has(e.volumeClaimTemplate.metadata.name) && e.volumeClaimTemplate.metadata.name == d.volumeClaimTemplate.metadata.name))",message="two disks have the same name"
	// +kubebuilder:validation:XValidation:rule="self.filter(d, has(d.bootindex)).all(d, self.exists_one(e, has(e.bootindex) && e.bootindex == d.bootindex))",message="two disks have the same bootindex"
	Disks []Disk `json:"disks,omitempty"`
	// Display is how the screen is reached. Default: the class's, else by SPICE on port 5900.
	//
	// +optional
	Display *Display `json:"display,omitempty"`
	// Options are further settings of the VM type, which declares and checks them
	// (vmrunner vmtype explain lists them). Default: the class's, each for itself.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Options *runtime.RawExtension `json:"options,omitempty"`
}

// State is whether a VM is to run.
//
// +kubebuilder:validation:Enum=Stopped;Running
type State string

// The states that a VM can be set to.
const (
	Stopped State = "Stopped"
	Running State = "Running"
)

// CPUTopology is how CPUs are arranged: each number is 0 to 4096, and 0, the default,
// leaves a level to QEMU.
type CPUTopology struct {
	// Sockets of the machine. Default: 1.
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
	// Image of the kernel, such as vmlinuz.
	//
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// Initrd is the initial RAM disk.
	//
	// +optional
	Initrd string `json:"initrd,omitempty"`
	// CommandLine of the kernel, such as console=ttyS0.
	//
	// +optional
	CommandLine string `json:"commandLine,omitempty"`
}

// Network is a network interface and the network behind it.
//
// +kubebuilder:validation:XValidation:rule="[has(self.tap), has(self.user), has(self.masquerade)].filter(x, x).size() == 1",message="want one of tap, user and masquerade"
type Network struct {
	// Tap is an interface on a bridge of the node: the guest is in the bridge's network,
	// its pod in the node's.
	//
	// +optional
	Tap *Tap `json:"tap,omitempty"`
	// User is QEMU's user-mode network: the guest reaches what the pod reaches, and is
	// reached by ports. It needs no privileges; {} takes all defaults.
	//
	// +optional
	User *UserNetwork `json:"user,omitempty"`
	// Masquerade is a private network behind the pod's address, provided by the kernel:
	// like user, but faster, ping works, and all ports of the pod's address are the
	// guest's but those of the runner. {} takes all defaults.
	//
	// +optional
	Masquerade *PrivateNetwork `json:"masquerade,omitempty"`
}

// Tap is an interface on a bridge of the node.
type Tap struct {
	// Device is QEMU's network card, such as e1000e. Default: virtio-net.
	//
	// +kubebuilder:default=virtio-net
	Device string `json:"device,omitempty"`
	// Bridge of the node, which must exist. Default: br0.
	//
	// +kubebuilder:default=br0
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^/ ]{1,15}$')",message="want the name of a bridge, such as br0: at most 15 characters, no / and no space"
	// +kubebuilder:validation:MaxLength=64
	Bridge string `json:"bridge,omitempty"`
	// MAC is the hardware address, such as 02:00:00:00:00:01. Default: computed from the
	// machine's uuid.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$')",message="want six bytes such as 02:00:00:00:00:01"
	// +kubebuilder:validation:MaxLength=64
	MAC string `json:"mac,omitempty"`
}

// UserNetwork is QEMU's user-mode network.
type UserNetwork struct {
	// Device is QEMU's network card, such as e1000e. Default: virtio-net.
	//
	// +kubebuilder:default=virtio-net
	Device string `json:"device,omitempty"`
	// Net is the IPv4 subnet of the guest, such as 10.0.2.0/24, the default.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,3}[.]){3}[0-9]{1,3}/[0-9]{1,2}$')",message="want an IPv4 subnet such as 10.0.2.0/24"
	// +kubebuilder:validation:MaxLength=64
	Net string `json:"net,omitempty"`
	// Ports of the pod's address that lead to the guest. They can change while the VM is
	// running.
	//
	// +optional
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=256
	Ports []Port `json:"ports,omitempty"`
	// HostLoopback lets the guest reach what listens on loopback addresses of the pod, such as sidecars.
	// Default: false.
	//
	// +optional
	HostLoopback *bool `json:"hostLoopback,omitempty"`
}

// Port leads from a port of the pod to one of the guest.
//
// +kubebuilder:validation:XValidation:rule="self.port != 7443 || self.protocol != 'TCP'",fieldPath=".port",message="7443 is the runner's own port, by which the manager reaches it; choose another"
type Port struct {
	// Port of the pod's address, 1 to 65535. 7443 is the runner's own for TCP.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Guest is the port in the guest. Default: the same.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Guest int32 `json:"guest,omitempty"`
	// Protocol is TCP, the default, or UDP.
	//
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// PrivateNetwork is a network of a single VM, provided by the kernel.
type PrivateNetwork struct {
	// Device is QEMU's network card, such as e1000e. Default: virtio-net.
	//
	// +kubebuilder:default=virtio-net
	Device string `json:"device,omitempty"`
	// Net is the IPv4 subnet of the guest, such as 10.0.2.0/24, the default.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,3}[.]){3}[0-9]{1,3}/[0-9]{1,2}$')",message="want an IPv4 subnet such as 10.0.2.0/24"
	// +kubebuilder:validation:MaxLength=64
	Net string `json:"net,omitempty"`
}

// Disk is a disk or a CD drive.
//
// +kubebuilder:validation:XValidation:rule="[has(self.volumeClaimTemplate), has(self.cdrom), has(self.virtualDisk)].filter(x, x).size() == 1",message="want one of volumeClaimTemplate, cdrom and virtualDisk"
type Disk struct {
	// VolumeClaimTemplate describes the claim of a disk, which is created if there is
	// none, and stays when the VM is deleted.
	//
	// +optional
	VolumeClaimTemplate *VolumeClaimTemplate `json:"volumeClaimTemplate,omitempty"`
	// CDROM is a CD drive. Its medium can change while the VM is running.
	//
	// +optional
	CDROM *CDROM `json:"cdrom,omitempty"`
	// VirtualDisk is a disk that outlives the VM, and that other VMs can have when this one has
	// no pod.
	//
	// +optional
	VirtualDisk *VirtualDiskRef `json:"virtualDisk,omitempty"`
	// Bootindex orders the devices to boot from, lowest first, from 0. The firmware tries
	// devices without one last.
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

// ClaimMetadata is the part of a claim's metadata that can be given.
type ClaimMetadata struct {
	// Name of the disk: the claim is <name>-disk-<vm>-0. Default: the disk's place in the
	// list, disk-<n>-<vm>-0.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=48
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="want a-z, 0-9 and - such as system: the name of the claim is made of it"
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
	// AccessModes of the volume. Default: [ReadWriteOnce].
	//
	// +kubebuilder:default={ReadWriteOnce}
	// +listType=atomic
	AccessModes []corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`
	// Selector chooses among volumes by their labels.
	//
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Resources say how large the volume must be: requests.storage, such as 40Gi. When it
	// is raised, the claim grows if its storage class allows that. It is required for a
	// claim that is created.
	//
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// VolumeName is that of an existing volume.
	//
	// +optional
	VolumeName string `json:"volumeName,omitempty"`
	// StorageClassName is the class of the volume. Default: the cluster's default class;
	// "" is none.
	//
	// +optional
	StorageClassName *string `json:"storageClassName,omitempty"`
	// VolumeMode of the volume: Block (the default), where the guest's disk is the volume
	// itself, or Filesystem, where it is the raw image disk.img, which is created if there
	// is none.
	//
	// +kubebuilder:default=Block
	// +kubebuilder:validation:Enum=Block;Filesystem
	VolumeMode *corev1.PersistentVolumeMode `json:"volumeMode,omitempty"`
	// DataSource is what a new volume is filled with: a claim or a snapshot.
	//
	// +optional
	DataSource *corev1.TypedLocalObjectReference `json:"dataSource,omitempty"`
	// DataSourceRef is dataSource for other kinds and other namespaces.
	//
	// +optional
	DataSourceRef *corev1.TypedObjectReference `json:"dataSourceRef,omitempty"`
	// VolumeAttributesClassName is the class of the attributes that can change.
	//
	// +optional
	VolumeAttributesClassName *string `json:"volumeAttributesClassName,omitempty"`
}

// CDROM is a CD drive.
type CDROM struct {
	// Image is a file in the image repository, such as debian.iso, or a URL; "" is an empty
	// drive.
	Image string `json:"image"`
}

// Display is how the screen is reached.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spice) || !has(self.vnc) || !has(self.vnc.port) || self.spice.port != self.vnc.port",message="spice and vnc have the same port"
type Display struct {
	// Outputs is the number of monitors, 1 to 16. Default: 1.
	//
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Outputs int32 `json:"outputs,omitempty"`
	// LoggedInUser is the user whom the log-in agent in the guest logs in. Default: none.
	//
	// +optional
	LoggedInUser string `json:"loggedInUser,omitempty"`
	// Spice is a SPICE server.
	//
	// +optional
	Spice *Spice `json:"spice,omitempty"`
	// VNC is a VNC server.
	//
	// +optional
	VNC *VNC `json:"vnc,omitempty"`
}

// Spice is a SPICE server.
type Spice struct {
	// Port it listens on, 1 to 65535. Default: 5900.
	//
	// +kubebuilder:default=5900
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Server is VM-Operator's host for viewers. It has no effect: viewers connect through the
	// manager.
	//
	// +optional
	Server string `json:"server,omitempty"`
	// GenerateSecret makes the manager create a display secret with a random, expired
	// password if there is none. Default: true. With false and without a secret everyone
	// who can reach the pod sees the screen.
	//
	// +kubebuilder:default=true
	GenerateSecret *bool `json:"generateSecret,omitempty"`
	// ProxyURL is VM-Operator's proxy for viewers. It has no effect: the manager is their proxy.
	//
	// +optional
	ProxyURL string `json:"proxyUrl,omitempty"`
	// StreamingVideo says which parts of the screen are sent as video: off, all, or filter
	// (those that look like video). Default: QEMU's, off.
	//
	// +optional
	// +kubebuilder:validation:Enum=off;all;filter
	StreamingVideo string `json:"streamingVideo,omitempty"`
	// USBRedirects is how many of the client's USB devices the guest can have, 0 to 14.
	// Default: 2.
	//
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=14
	USBRedirects *int32 `json:"usbRedirects,omitempty"`
}

// VNC is a VNC server.
type VNC struct {
	// Port it listens on, 5900 to 65535. Default: none, only a socket in the pod, which
	// vmrunner vnc connects to.
	//
	// +optional
	// +kubebuilder:validation:Minimum=5900
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}
