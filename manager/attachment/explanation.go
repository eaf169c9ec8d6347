package attachment

import (
	"vmop/manager/disk"
	"vmop/vmstatus"
)

// Explanations explain the reasons of the phases of attachments, in the order of the documentation.
var Explanations = []vmstatus.Explanation{
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonVMMissing, ReasonVMStopped},
		Meaning: "The disk is attached when the VM runs",
		Advice:  "Start the VM.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{
			disk.ReasonMissing, disk.ReasonNotReady, disk.ReasonInUse, disk.ReasonCopied,
		},
		Meaning: "The disk is unavailable, used by another VM, or being copied",
		Advice:  "Wait, or free the disk.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{disk.ReasonImageMissing, disk.ReasonImageNotReady},
		Meaning: "The image is unavailable",
		Advice:  "Wait, or correct its name.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{reasonRestart},
		Meaning: "An older manager created the VM's pod, or its runner is too old for images",
		Advice:  "Restart the VM.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonConflict},
		Meaning: "The VM's pod mounts the disk, or the disk is being detached. If Failed, the VM already uses the " +
			"disk, through its definition or another attachment",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonRefused},
		Meaning: "The API server rejected the export. The manager tries again every minute",
		Advice:  "Change what the message names.",
	},
	{
		Phases: "InProgress", Reasons: []vmstatus.Reason{ReasonExporting},
		Meaning: "The pod that serves the disk is starting. The message shows a reason for a delay",
	},
	{Phases: "InProgress", Reasons: []vmstatus.Reason{ReasonRequested}, Meaning: "The runner is attaching the disk"},
	{Phases: "Attached", Reasons: []vmstatus.Reason{ReasonAttached}, Meaning: "The guest can use the disk"},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{
			disk.ReasonFailed, disk.ReasonDeleted, disk.ReasonImageFailed, disk.ReasonImageDeleted,
		},
		Meaning: "The disk or image is unusable",
		Advice:  "Delete the attachment, and choose another disk.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonNotPlugged},
		Meaning: "The VM has no free slot (stock types have 8), or its type has no slots",
		Advice:  "Detach another disk, or add the disk to the VM's definition.",
	},
	{
		Phases: "Terminating", Reasons: []vmstatus.Reason{reasonDetaching},
		Meaning: "The message shows what the detachment is waiting for",
	},
}
