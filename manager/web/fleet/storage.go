package fleet

import (
	"context"
	"io"
	"time"
)

// ImagePrefix is before the name of an image that is attached, ClusterImagePrefix before that of one of the cluster.
const (
	ImagePrefix        = "vi/"
	ClusterImagePrefix = "cvi/"
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

	// Upload takes a piece of a file that becomes the data of a disk, and returns how far the upload is. NotYet means
	// that it can be sent a moment later, any other error than a Refusal that it may have been lost on its way.
	Upload(ctx context.Context, kind VolumeKind, name string, p Piece) (Upload, error)
	// Export asks for the data of a disk, and returns the request, by which it is downloaded.
	Export(ctx context.Context, user string, kind VolumeKind, name string) (request string, err error)
	// Exported returns nil if the data that was asked for can be downloaded now, and otherwise NotYet or a Refusal.
	Exported(kind VolumeKind, name, request string) error
	// Download passes the data on, and ends the export.
	Download(ctx context.Context, kind VolumeKind, name, request string, to DiskWriter) error

	// Attach attaches a disk to a VM while its guest runs, or as soon as it does; Detach takes it away again. Both
	// return when it is begun: the VM shows what becomes of it. An image is ImagePrefix, or
	// ClusterImagePrefix, and its name.
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

// NotYet is an error that passes by itself, and its text for people.
type NotYet string

// Error implements error.
func (n NotYet) Error() string { return string(n) }

// A Piece is a part of a file that a user sends.
type Piece struct {
	// ID tells the upload from others, and is the same for all pieces of it.
	ID string
	// Size of the file in bytes, and its checksum; "" is none.
	Size     int64
	Checksum string
	// From is the place of the piece, Length how many bytes Body has. Without any, it is asked how far the upload is.
	From, Length int64
	Body         io.Reader
	// Cancel ends the upload.
	Cancel bool
}

// An Upload is how far one is.
type Upload struct {
	State UploadState `json:"state"`
	// At is how many bytes have arrived: where the next piece begins.
	At int64 `json:"at"`
}

// UploadState is what is next in an upload.
type UploadState string

// The states of uploads.
const (
	UploadContinues UploadState = "Continue" // with the next piece
	UploadReceived  UploadState = "Received" // all has arrived, and is being imported
	UploadImported  UploadState = "Imported" // the disk has its data
	UploadUnknown   UploadState = "Unknown"  // it has to begin again
)

// A DiskWriter takes the data of a disk, from its beginning to its end.
type DiskWriter interface {
	// Begin is called first, with the size of the disk in bytes.
	Begin(size int64) error
	// Put takes data at an offset, a multiple of 4096 that is behind all that came before. What is between is zero.
	Put(data []byte, at int64) error
	// End is called when all data has come.
	End(size int64) error
}
