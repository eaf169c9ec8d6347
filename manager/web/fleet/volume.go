package fleet

// A Volume is a disk, an image or a CD drive: one of a VM, or of a fleet's Storage.
type Volume struct {
	Kind VolumeKind `json:"kind"`
	// Name is that of the disk or image; of a VM's own disk that of its claim, of a drive that by which Insert knows
	// it, on this computer the path of a file.
	Name string `json:"name"`
	// Size in bytes; 0 if it isn't known.
	Size int64 `json:"size,omitempty"`
	// State is a phase of a disk or of an attachment (package api/v1), and why it is in it: a word for programs, and a
	// text for people in English. "" if that isn't known.
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Progress of an import, such as 45%; "" if there is none.
	Progress string `json:"progress,omitempty"`
	// Source is where the data comes from: an address, a container image, or KIND/NAME; of a drive its medium. "" means
	// that the disk was blank.
	Source string `json:"source,omitempty"`
	// UsedBy are the VMs that have it or name it, sorted; only of a Storage.
	UsedBy []string `json:"usedBy,omitempty"`
	// Attachment, of a disk of a VM, is the name of what attaches it while the guest runs; "" for one of the
	// definition.
	Attachment string `json:"attachment,omitempty"`
}

// VolumeKind is what a Volume is.
type VolumeKind string

// The kinds of volumes.
const (
	OwnDisk             VolumeKind = "PersistentVolumeClaim" // of the VM itself, by a claim template
	VirtualDisk         VolumeKind = "VirtualDisk"
	VirtualImage        VolumeKind = "VirtualImage"
	ClusterVirtualImage VolumeKind = "ClusterVirtualImage" // of all namespaces; nothing of it is changed here
	CDDrive             VolumeKind = "CD"
	FileDisk            VolumeKind = "File" // a file or device of this computer
)

// VolumeKinds returns all kinds.
func VolumeKinds() []VolumeKind {
	return []VolumeKind{OwnDisk, VirtualDisk, VirtualImage, ClusterVirtualImage, CDDrive, FileDisk}
}

// VolumeStates returns all states of volumes.
func VolumeStates() []string {
	return []string{
		"Pending", "WaitForFirstConsumer", "WaitForUserUpload", "Provisioning", "Ready", "Resizing", "Failed",
		"Terminating", "InProgress", "Missing",
	}
}
