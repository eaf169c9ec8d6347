package fleet

import "context"

// The following interfaces change VMs. A fleet returns nil for an interface that it can't implement, and pages then
// hide it or name the alternative. All methods are safe for concurrent use. Errors are those that Fleet describes.
// Methods return when the change has begun or is refused; the VM shows the result.

// Attachments changes the disks of VMs.
type Attachments interface {
	// Attachable returns how disks can be attached to a VM.
	Attachable(ctx context.Context, vm *VM) Attachable
	// Attach attaches a disk to a VM.
	Attach(ctx context.Context, user, vm string, d Attachment) error
	// Detach detaches a disk, by its name in Volume.Detaches. The data is kept.
	Detach(ctx context.Context, user, vm, disk string) error
	// Grow grows a disk, by its name in Volume.Grows, to a size in bytes.
	Grow(ctx context.Context, user, vm, disk string, size int64) error
	// Media returns the images that can be inserted into CD drives by name.
	Media() []Medium
}

// Attachable is how disks can be attached to a VM.
type Attachable struct {
	// Disks are the names of disks and images that can be attached.
	Disks []string
	// Files reports whether files of the computer can be attached by path, and Blank whether new blank disks can.
	Files, Blank bool
}

// An Attachment is a disk to attach.
type Attachment struct {
	// Disk is the name of a disk or image, or the path of a file or block device. An image is named with ImagePrefix or
	// ClusterImagePrefix. It is empty for a new blank disk.
	Disk string
	// Size is the size of a new blank disk in bytes; 0 for an existing disk.
	Size int64
}

// A Medium is an image for CD drives.
type Medium struct {
	// Name is unique. File is the value for Insert and for definitions.
	Name string `json:"name"`
	File string `json:"file"`
	// Size in bytes.
	Size int64 `json:"size"`
}

// DiskFiles is implemented by Attachments that can copy the disks of VMs to files of the computer.
type DiskFiles interface {
	// ExportDisk copies a disk of a stopped VM, by its name in Volume.Exports, to a new file in the format raw or
	// qcow2.
	ExportDisk(ctx context.Context, user, vm, disk, file, format string) error
}

// Cards is implemented by fleets that can change the network cards of VMs one by one.
type Cards interface {
	// Networks returns the types of networks that a new card can have.
	Networks() []string
	// AttachCard adds a card: its Network, and the Bridge of a tap.
	AttachCard(ctx context.Context, user, vm string, c Card) error
	// DetachCard removes a card, by its Key.
	DetachCard(ctx context.Context, user, vm, key string) error
	// SetLink plugs in or unplugs the cable of a card, by its Key.
	SetLink(ctx context.Context, user, vm, key string, up bool) error
}

// Snapshots creates snapshots of VMs.
type Snapshots interface {
	// Snapshot begins a snapshot of all disks of a VM, and returns its name. An empty name is replaced by the time. A
	// fleet without Named refuses other names.
	Snapshot(ctx context.Context, user, vm, name string) (string, error)
	// Named reports whether snapshots can have a name.
	Named() bool
}

// Restores returns VMs to their snapshots.
type Restores interface {
	// Restore restores the disks of a stopped VM from a snapshot, and its definition if definition is true.
	Restore(ctx context.Context, user, vm, snapshot string, definition bool) error
	// DeleteSnapshot deletes a snapshot.
	DeleteSnapshot(ctx context.Context, user, vm, snapshot string) error
}

// Copies clones and renames VMs.
type Copies interface {
	// Clone creates a stopped VM with copies of the disks of another VM: the disks of a snapshot, or the current disks
	// if snapshot is empty.
	Clone(ctx context.Context, user, vm, snapshot, to string) error
	// Rename renames a stopped VM. Notes are for people: what carries the old name and was not changed.
	Rename(ctx context.Context, user, vm, to string) (notes []string, err error)
}

// Autostarts starts VMs together with the computer.
type Autostarts interface {
	// SetAutostart switches the automatic start of a VM on or off. VM.Autostart shows the result.
	SetAutostart(ctx context.Context, user, vm string, on bool) error
}

// Autostart is whether and when a VM starts without a request.
type Autostart struct {
	On bool `json:"on"`
	// AtBoot reports whether the VM starts together with the computer; otherwise it starts when its user logs in.
	AtBoot bool `json:"atBoot"`
}

// DataDeletion deletes VMs together with their data.
type DataDeletion interface {
	// OwnData returns the data that DeleteWithData deletes, as paths and descriptions; nil if there is none.
	OwnData(ctx context.Context, vm string) ([]string, error)
	// DeleteWithData deletes a VM and its data. It returns what stays, as names or paths.
	DeleteWithData(ctx context.Context, user, vm string) (left []string, err error)
}
