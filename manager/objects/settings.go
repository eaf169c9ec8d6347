package objects

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"vmop/manager/addresses"
)

// Settings are what the manager's configuration says about all VMs.
type Settings struct {
	// Version of the manager, which made or last changed an object.
	Version string
	// Image is the runner's container image for VMs that name none.
	Image string
	// ImagePullPolicy of Image. Empty leaves it to Kubernetes.
	ImagePullPolicy corev1.PullPolicy
	// ImageRepository is the claim of the volume with CD images and kernels.
	// Empty: there is none, and a VM's images are URLs.
	ImageRepository string
	// VMTypes is the ConfigMap with custom VM types for VMs that name none.
	// Empty: stock types only.
	VMTypes string
	// DataStorageClass is the storage class of the small volume that each VM has
	// for its firmware variables, TPM and uuid. Nil: the cluster's default.
	DataStorageClass *string
	// CPUOvercommit is by how much the CPUs of VMs may exceed what their pods
	// request, RAMOvercommit their memory; 1 is not at all. They are for pods
	// whose resources are computed, and at least 1.
	CPUOvercommit, RAMOvercommit float64
	// LoadBalancer is what the services have by which displays are reached. Nil:
	// there are none.
	LoadBalancer *ServiceMetadata
	// LoggingProperties are the runner's, for VMs that have none of their own.
	LoggingProperties string
	// KVMResource is the name under which a device plugin offers /dev/kvm, such
	// as vmop/kvm. Empty: pods that may use KVM are privileged.
	KVMResource string
	// VhostNetResource is the name under which a device plugin offers /dev/vhost-net, by
	// which the kernel moves the packets of taps. Empty: QEMU does, except in privileged pods.
	VhostNetResource string
	// Ranges are the subnets whose addresses VMs get. Empty: they get none.
	Ranges addresses.Ranges
	// LeaseRetention is how long an address is kept for its namespace that no object has
	// any more.
	LeaseRetention time.Duration
	// Trust says what of a VM's definition may be in a pod with more rights than
	// others.
	Trust Trust
	// NoPrivateAddresses keeps imports and registries of VM types from private addresses, too.
	NoPrivateAddresses bool
	// OperationsKept is how many finished operations of each VM are kept, OperationsKeptFor how
	// long.
	OperationsKept    int
	OperationsKeptFor time.Duration
	// Restarts limits the restarts of VMs by the manager.
	Restarts Restarts
}

// Restarts limits how fast VMs are restarted.
type Restarts struct {
	// AtOnce is how many VMs are being restarted at most, Pause how long it is at least from
	// one to the next.
	AtOnce int
	Pause  time.Duration
}

// ServiceMetadata is what a service has besides what it needs.
type ServiceMetadata struct {
	Labels, Annotations map[string]string
}

// DefaultSettings returns what a manager does without a configuration. Image is
// empty: it belongs to the manager's version, which only the program knows.
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
