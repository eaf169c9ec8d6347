package objects

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"vmop/manager/addresses"
)

// Settings are the manager's settings for all VMs, from its configuration.
type Settings struct {
	// Version of the manager that created or last changed an object.
	Version string
	// Image is the runner's container image for VMs that name no image.
	Image string
	// ImagePullPolicy of Image. If it is empty, Kubernetes decides.
	ImagePullPolicy corev1.PullPolicy
	// ImageRepository is the claim of the volume with CD images and kernels. If it is empty, all images of a VM are
	// URLs.
	ImageRepository string
	// VMTypes is the ConfigMap with custom VM types for VMs that name no ConfigMap. If it is empty, they can use
	// only the stock types.
	VMTypes string
	// DataStorageClass is the storage class of each VM's small volume for firmware variables, TPM and UUID; nil
	// means the cluster's default.
	DataStorageClass *string
	// CPUOvercommit and RAMOvercommit are the factors by which a VM's CPUs and memory may exceed the requests of its
	// pod. They apply to pods with computed resources, and are at least 1, which means no overcommit.
	CPUOvercommit, RAMOvercommit float64
	// LoadBalancer contains the labels and annotations of services that expose displays; nil disables these
	// services.
	LoadBalancer *ServiceMetadata
	// LoggingProperties are the runner's logging properties for VMs that define none.
	LoggingProperties string
	// KVMResource is the resource name under which a device plugin offers /dev/kvm, for example vmop/kvm. If it is
	// empty, pods that may use KVM are privileged.
	KVMResource string
	// VhostNetResource is the resource name under which a device plugin offers /dev/vhost-net, which lets the kernel
	// forward the packets of taps. If it is empty, QEMU forwards the packets, except in privileged pods.
	VhostNetResource string
	// Ranges are the subnets for VM addresses. If it is empty, VMs receive no addresses.
	Ranges addresses.Ranges
	// LeaseRetention is how long an address stays reserved for its namespace after the last object with this address
	// is gone.
	LeaseRetention time.Duration
	// Trust lists what a VM's definition may use in a pod with more rights than others.
	Trust Trust
	// NoPrivateAddresses prevents connections to private addresses for imports and for registries of VM types.
	NoPrivateAddresses bool
	// OperationsKept is how many finished operations are kept per VM, and OperationsKeptFor how long.
	OperationsKept    int
	OperationsKeptFor time.Duration
	// Restarts limits the restarts of VMs by the manager.
	Restarts Restarts
}

// Restarts limits how fast VMs are restarted.
type Restarts struct {
	// AtOnce is the maximum number of VMs that restart at the same time. Pause is the minimum time between the
	// starts of two restarts.
	AtOnce int
	Pause  time.Duration
}

// ServiceMetadata contains additional metadata of a service.
type ServiceMetadata struct {
	Labels, Annotations map[string]string
}

// DefaultSettings returns the settings of a manager without a configuration. Image is empty: it depends on the
// manager's version, which only the program knows.
func DefaultSettings() Settings {
	return Settings{
		ImageRepository: "vmop-image-repository",
		CPUOvercommit:   2,
		RAMOvercommit:   1.25,

		OperationsKept: 10, OperationsKeptFor: 24 * time.Hour,
		Restarts:       Restarts{AtOnce: 1, Pause: 10 * time.Second},
		LeaseRetention: 10 * time.Minute,
	}
}
