package v1

import "k8s.io/apimachinery/pkg/api/resource"

// DiskTuning tunes how QEMU reads and writes a disk. By default the VM type decides.
type DiskTuning struct {
	// How the node caches the disk's data, with the values of QEMU. none and directsync bypass the node's
	// page cache.
	//
	// +optional
	// +kubebuilder:validation:Enum=none;writeback;writethrough;directsync;unsafe
	Cache string `json:"cache,omitempty"`
	// Interface for asynchronous requests. native requires the cache none or directsync.
	//
	// +optional
	// +kubebuilder:validation:Enum=threads;native;io_uring
	AIO string `json:"aio,omitempty"`
	// Whether space that the guest frees is freed on the volume.
	//
	// +optional
	// +kubebuilder:validation:Enum=unmap;ignore
	Discard string `json:"discard,omitempty"`
	// Whether blocks of zeros are written as such, or freed (unmap).
	//
	// +optional
	// +kubebuilder:validation:Enum=off;on;unmap
	DetectZeroes string `json:"detectZeroes,omitempty"`
	// Limits of the disk's speed. They change while the VM is running.
	//
	// +optional
	Limits *DiskLimits `json:"limits,omitempty"`
}

// DiskLimits limits the requests and the data per second. The limit of all requests can't be
// combined with the limits of reads and writes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.iops) || !has(self.iopsRead) && !has(self.iopsWrite)",message="iops can't be combined with iopsRead and iopsWrite"
// +kubebuilder:validation:XValidation:rule="!has(self.bytes) || !has(self.bytesRead) && !has(self.bytesWrite)",message="bytes can't be combined with bytesRead and bytesWrite"
type DiskLimits struct {
	// Requests per second.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	IOPS int64 `json:"iops,omitempty"`
	// Reads per second.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	IOPSRead int64 `json:"iopsRead,omitempty"`
	// Writes per second.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	IOPSWrite int64 `json:"iopsWrite,omitempty"`
	// Bytes per second, such as 100Mi.
	//
	// +optional
	Bytes *resource.Quantity `json:"bytes,omitempty"`
	// Bytes that are read per second.
	//
	// +optional
	BytesRead *resource.Quantity `json:"bytesRead,omitempty"`
	// Bytes that are written per second.
	//
	// +optional
	BytesWrite *resource.Quantity `json:"bytesWrite,omitempty"`
}
