package v1

import "k8s.io/apimachinery/pkg/types"

// AnnotationExport of a VirtualDisk or VirtualImage asks for an export of its data to a user's computer, which begins
// before the time that it has (RFC 3339, as precise as is wanted: another time is another request). kubectl vmop
// disk export writes it, and removes it in the end; the manager removes one whose time has passed.
//
// See docs/decisions/0142-exports-of-disks.md.
const AnnotationExport = GroupName + "/export"

// DiskExport is an export of a disk or image.
type DiskExport struct {
	// Request is the annotation that asks for it.
	Request string `json:"request"`
	// Pod is the uid of the pod that reads the data. While there is one, no VM gets the disk.
	//
	// +optional
	Pod types.UID `json:"pod,omitempty"`
	// Phase is the state in one word; Reason and Message say more.
	Phase DiskExportPhase `json:"phase"`
	// Reason of the phase, a word for programs.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
}

// DiskExportPhase is the state of an export in one word.
//
// +kubebuilder:validation:Enum=Pending;Ready;Ended
type DiskExportPhase string

// The phases of an export.
const (
	DiskExportPending DiskExportPhase = "Pending" // Reason says what it waits for
	DiskExportReady   DiskExportPhase = "Ready"   // the data can be fetched
	DiskExportEnded   DiskExportPhase = "Ended"
)
