package v1

import "k8s.io/apimachinery/pkg/types"

// AnnotationExport of a VirtualDisk or VirtualImage requests an export of its data to a user's
// computer. Its value is the time until which the export can begin (RFC 3339); another time is
// another request. kubectl vmop disk export writes it and finally removes it. The manager removes
// an annotation when its time has passed.
//
// See docs/decisions/0142-exports-of-disks.md.
const AnnotationExport = GroupName + "/export"

// DiskExport is an export of a disk or image.
type DiskExport struct {
	// Value of the annotation that requested the export.
	Request string `json:"request"`
	// UID of the pod that reads the data. No VM can use the disk while this pod exists.
	//
	// +optional
	Pod types.UID `json:"pod,omitempty"`
	// Current phase: Pending, Ready or Ended. See reason and message for details.
	Phase DiskExportPhase `json:"phase"`
	// Machine-readable reason for the phase.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Human-readable details about the phase.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
}

// DiskExportPhase is the phase of an export.
//
// +kubebuilder:validation:Enum=Pending;Ready;Ended
type DiskExportPhase string

// The phases of an export.
const (
	DiskExportPending DiskExportPhase = "Pending" // see Reason
	DiskExportReady   DiskExportPhase = "Ready"   // the data can be fetched
	DiskExportEnded   DiskExportPhase = "Ended"
)
