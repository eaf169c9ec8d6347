package fleet

import (
	"context"
	"io"
	"time"
)

// Prefixes of the name of an attached image: ImagePrefix for an image of the namespace, ClusterImagePrefix for an image
// of the cluster.
const (
	ImagePrefix        = "vi/"
	ClusterImagePrefix = "cvi/"
)

// A Storage contains disks and images that outlive VMs. All methods are safe for concurrent use. Errors are those that
// Fleet describes; ErrNotFound means that the disk doesn't exist. A storage that also implements Growth or Exports
// grows or sends disks.
type Storage interface {
	// Disks returns the disks and images, sorted by kind and name.
	Disks(ctx context.Context) ([]Volume, error)
	// NewDisks describes the disks and images that users can create.
	NewDisks() NewDisks
	// CreateDisk creates a disk or image. user is the requesting user, for records.
	CreateDisk(ctx context.Context, user string, d NewDisk) error
	// DeleteDisk deletes a disk or image with its data. It is refused while a VM uses or names it.
	DeleteDisk(ctx context.Context, user string, kind VolumeKind, name string) error
	// Upload sends a piece of a file that becomes the data of a disk, and returns the progress of the upload. NotYet
	// means that the disk isn't ready for it yet. After any other error except a Refusal, the piece may have been lost.
	Upload(ctx context.Context, kind VolumeKind, name string, p Piece) (Upload, error)
}

// Growth grows the disks of a Storage.
type Growth interface {
	// GrowDisk grows a disk or image to a size in bytes.
	GrowDisk(ctx context.Context, user string, kind VolumeKind, name string, size int64) error
}

// Exports sends the disks of a Storage.
type Exports interface {
	// Export requests the data of a disk, and returns the request, which Download needs.
	Export(ctx context.Context, user string, kind VolumeKind, name string) (request string, err error)
	// Exported returns nil if the requested data can be downloaded now, and NotYet or a Refusal otherwise.
	Exported(kind VolumeKind, name, request string) error
	// Download writes the requested data to a DiskWriter, and ends the export.
	Download(ctx context.Context, kind VolumeKind, name, request string, to DiskWriter) error
}

// NewDisks are the disks and images that users can create in a Storage.
type NewDisks struct {
	// Kinds are the possible kinds, the usual first. From are the possible sources, the usual first.
	Kinds []VolumeKind
	From  []DiskFrom
	// Sized reports whether a new disk needs a size. Classes reports whether it can have a storage class.
	Sized, Classes bool
	// Folder is where the data is stored; "" if users don't see it. Free is the free space there in bytes.
	Folder string
	Free   int64
	// Known are the images with names that can be fetched in advance, as a CachedImage from a URL or name; nil if that
	// is impossible.
	Known []KnownImage
}

// A Snapshot is a snapshot of a VM.
type Snapshot struct {
	Name string `json:"name"`
	// State is a phase of snapshots (package api/v1). Reason and Message explain it. Advice is what to do, in English;
	// "" if no action is needed.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Advice  string `json:"advice,omitempty"`
	// Consistent reports whether all disks were captured at the same moment; nil while unknown.
	Consistent *bool `json:"consistent,omitempty"`
	// At is the captured moment or, until that is known, the time of the request.
	At time.Time `json:"at,omitzero"`
	// Stored is the space that the snapshot occupies in bytes; 0 if unknown.
	Stored int64 `json:"stored,omitempty"`
}

// DisksOmitted is the reason of a complete snapshot without some disks, which its message lists.
const DisksOmitted = "DisksOmitted"

// SnapshotStates returns all states of snapshots.
func SnapshotStates() []string {
	return []string{"Pending", "InProgress", "Ready", "Failed", "Terminating"}
}

// A NewDisk is a disk or image to create.
type NewDisk struct {
	Kind VolumeKind
	Name string
	Disk
}

// FromUpload is a disk that the user fills with an upload. A new VM can't have one.
const FromUpload DiskFrom = "upload"

// NotYet is a temporary error, with a text for people.
type NotYet string

// Error implements error.
func (n NotYet) Error() string { return string(n) }

// A Piece is a part of an upload.
type Piece struct {
	// ID identifies the upload. All its pieces have the same ID.
	ID string
	// Size is the size of the file in bytes. Checksum is its checksum; "" means no check.
	Size     int64
	Checksum string
	// From is the offset of the piece, Length the length of Body. A piece without data queries the progress.
	From, Length int64
	Body         io.Reader
	// Cancel ends the upload.
	Cancel bool
}

// An Upload is the progress of an upload.
type Upload struct {
	State UploadState `json:"state"`
	// At is the number of received bytes: the offset of the next piece.
	At int64 `json:"at"`
}

// UploadState is what happens next in an upload.
type UploadState string

// The states of uploads.
const (
	UploadContinues UploadState = "Continue" // with the next piece
	UploadReceived  UploadState = "Received" // complete, and being imported
	UploadImported  UploadState = "Imported" // the disk has its data
	UploadUnknown   UploadState = "Unknown"  // the upload must begin again
)

// A DiskWriter receives the data of a disk in order.
type DiskWriter interface {
	// Begin is called first, with the size of the disk in bytes.
	Begin(size int64) error
	// Put receives data at an offset, a multiple of 4096 after all earlier data. Gaps are zero.
	Put(data []byte, at int64) error
	// End is called after all data.
	End(size int64) error
}
