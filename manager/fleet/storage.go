package fleet

import (
	"context"
	"time"
)

// A Storage has disks and images that outlive VMs. All methods may be called concurrently; errors are those of Fleet,
// where ErrNotFound means that there is no such disk.
type Storage interface {
	// Disks returns the disks and images, sorted by kind and name.
	Disks() ([]Volume, error)
	// CreateDisk makes a disk or an image. user is who wants it, for records.
	CreateDisk(ctx context.Context, user string, d NewDisk) error
	// GrowDisk makes one larger, in bytes.
	GrowDisk(ctx context.Context, user string, kind VolumeKind, name string, size int64) error
	// DeleteDisk deletes one with its data. It is refused while a VM has or names it.
	DeleteDisk(ctx context.Context, user string, kind VolumeKind, name string) error

	// Attach attaches a disk to a VM while its guest runs, or as soon as it does; Detach takes it away again. Both
	// return when it is begun: the VM shows what becomes of it.
	Attach(ctx context.Context, user, vm, disk string) error
	Detach(ctx context.Context, user, vm, disk string) error
	// Snapshot begins a snapshot of all disks of a VM, and returns its name.
	Snapshot(ctx context.Context, user, vm string) (name string, err error)
}

// A Snapshot is one of a VM.
type Snapshot struct {
	Name string `json:"name"`
	// State is a phase of snapshots (package api/v1), and why it is in it.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Consistent reports whether all disks are as at one moment; nil: that is not decided yet.
	Consistent *bool `json:"consistent,omitempty"`
	// At is the moment that it shows, or when it was asked for until there is one.
	At time.Time `json:"at,omitzero"`
}

// SnapshotStates returns all states of snapshots.
func SnapshotStates() []string {
	return []string{"Pending", "InProgress", "Ready", "Failed", "Terminating"}
}

// A NewDisk is a disk or an image that is to be made.
type NewDisk struct {
	Kind VolumeKind
	Name string
	Disk
}

// FromUpload is a disk whose data a user sends later; a VM can't be made with one.
const FromUpload DiskFrom = "upload"
