package fleet

import "time"

// A Volume is a disk, an image or a CD drive, of a VM or of a fleet's Storage.
type Volume struct {
	Kind VolumeKind `json:"kind"`
	// Name is the name of the disk or image, the name of the claim for a VM's own disk, or the drive's name for Insert.
	// On this computer it is a file's path.
	Name string `json:"name"`
	// Size in bytes; 0 if unknown.
	Size int64 `json:"size,omitempty"`
	// Stored is the space that it occupies in bytes; 0 if unknown. Format is the format of its file; "" if unknown.
	Stored int64  `json:"stored,omitempty"`
	Format string `json:"format,omitempty"`
	// State is a phase of a disk or attachment (package api/v1); "" if unknown. Reason explains it with a word for
	// programs, Message with an English text for people. Advice is what to do, in English; "" if no action
	// is needed.
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Advice  string `json:"advice,omitempty"`
	// Progress of an import, such as 45%; "" if there is none.
	Progress string `json:"progress,omitempty"`
	// Source is the source of the data: a URL, a container image, or KIND/NAME; for a drive, its medium. "" means that
	// the disk was blank.
	Source string `json:"source,omitempty"`
	// UsedBy are the VMs that use or name it, sorted; only set in a Storage.
	UsedBy []string `json:"usedBy,omitempty"`
	// Attachment is the name of the attachment of a disk to the running guest; "" for a disk of the definition.
	Attachment string `json:"attachment,omitempty"`
	// Detaches is its name for Attachments.Detach, Grows for Attachments.Grow, and Exports for DiskFiles.ExportDisk; ""
	// if that is impossible.
	Detaches string `json:"detaches,omitempty"`
	Grows    string `json:"grows,omitempty"`
	Exports  string `json:"exports,omitempty"`
	// Added is when it was created, and LastUse when a disk was last created from it; zero if unknown.
	Added   time.Time `json:"added,omitzero"`
	LastUse time.Time `json:"lastUse,omitzero"`
	// Contents describes its contents in English; "" if unknown.
	Contents string `json:"contents,omitempty"`
}

// VolumeKind is the kind of a Volume.
type VolumeKind string

// The kinds of volumes.
const (
	OwnDisk             VolumeKind = "PersistentVolumeClaim" // the VM's own disk, from a claim template
	VirtualDisk         VolumeKind = "VirtualDisk"
	VirtualImage        VolumeKind = "VirtualImage"
	ClusterVirtualImage VolumeKind = "ClusterVirtualImage" // for all namespaces; read-only here
	CDDrive             VolumeKind = "CD"
	FileDisk            VolumeKind = "File"          // a file or device of this computer
	UploadedFile        VolumeKind = "UploadedFile"  // an uploaded CD or disk image of this computer
	CachedImage         VolumeKind = "CachedImage"   // fetched for new disks; it can be fetched again
	DeletedVMData       VolumeKind = "DeletedVMData" // data of a VM that was deleted on this computer
)

// VolumeKinds returns all kinds.
func VolumeKinds() []VolumeKind {
	return []VolumeKind{
		OwnDisk, VirtualDisk, VirtualImage, ClusterVirtualImage, CDDrive, FileDisk, UploadedFile,
		CachedImage, DeletedVMData,
	}
}

// VolumeStates returns all states of volumes.
func VolumeStates() []string {
	return []string{
		"Pending", "WaitForFirstConsumer", "WaitForUserUpload", "Provisioning", "Ready", "Resizing", "Failed",
		"Terminating", "InProgress", "Missing",
	}
}
