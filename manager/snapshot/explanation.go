package snapshot

import "vmop/vmstatus"

// Explanations explain the reasons of the phases of snapshots, in the order of the documentation.
var Explanations = []vmstatus.Explanation{
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonMachine},
		Meaning: "The VM doesn't exist",
		Advice:  "Correct the name in a new snapshot.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonNoVolume, ReasonDiskMissing, ReasonDiskNotReady},
		Meaning: "A claim or VirtualDisk doesn't exist or has no volume yet",
		Advice:  "Start the VM once, or wait for the disk.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonDiskInUse},
		Meaning: "Another VM uses a VirtualDisk of this VM",
		Advice:  "Stop the other VM, or detach the disk from it.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonUnsupported, ReasonNoClass},
		Meaning: "The cluster or a driver doesn't support snapshots, or the class is missing",
		Advice:  "Let an administrator install the snapshot controller, or create a VolumeSnapshotClass of the driver.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonBusy},
		Meaning: "Another operation has frozen the guest, or the VM is starting or ending",
		Advice:  "Wait.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonNameTaken},
		Meaning: "The VolumeSnapshot belongs to a deleted snapshot of the same name",
		Advice:  "Wait until it is deleted, or choose another name.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonRefused},
		Meaning: "The API server rejects the snapshot. The manager tries again every minute",
		Advice:  "Change what the message names.",
	},
	{Phases: "InProgress", Reasons: []vmstatus.Reason{ReasonCapturing}, Meaning: "The storage is taking the snapshot"},
	{
		Phases: "InProgress", Reasons: []vmstatus.Reason{ReasonStoring},
		Meaning: "The storage is saving the snapshot. The guest runs",
	},
	{
		Phases: "Ready", Reasons: []vmstatus.Reason{reasonReady, reasonConsistent},
		Meaning: "You can use the snapshot as a source. The condition `Consistent` has the reason `Consistent` or " +
			"`NotConsistent`",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{ReasonNotConsistent},
		Meaning: "Consistency was required",
		Advice:  "Install the [guest agent](reference/guest-agents.md), stop the VM, or don't require consistency.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{ReasonLost},
		Meaning: "A VolumeSnapshot was deleted",
		Advice:  "Delete the snapshot, and take another.",
	},
	{Phases: "Terminating", Reasons: []vmstatus.Reason{ReasonDeletion}, Meaning: "The snapshot is being deleted"},
}
