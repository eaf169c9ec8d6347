package disk

import "vmop/vmstatus"

// Explanations explain the reasons of the phases of disks and images, in the order of the documentation. Package
// diskimage explains the reasons of failed imports.
var Explanations = []vmstatus.Explanation{
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{"NotSeen"}, // the default of the resource's definition
		Meaning: "No manager has processed the disk yet",
		Advice:  "Check that a manager runs for this namespace.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{reasonNoClass},
		Meaning: "The storage class doesn't exist, or the cluster has no default",
		Advice:  "Create a new disk with a storage class that exists, or let an administrator choose a default.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonQuota, ReasonRefused},
		Meaning: "The API server rejects the claim. The manager tries again every minute",
		Advice:  "Change what the message names: a quota, a limit, or the disk.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{reasonOldClaim},
		Meaning: "The claim of a deleted disk with the same name still exists",
		Advice:  "Wait. If the claim stays, a pod or a finalizer keeps it.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonProvisioning},
		Meaning: "The storage is creating the volume. The manager can explain a delay only if it may read " +
			"StorageClasses (deploy/manager/cluster-account.yaml)",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonSecretMissing},
		Meaning: "A Secret of this name and type doesn't exist",
		Advice:  "Create the Secret.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonSecretHost},
		Meaning: "The Secret's annotation `vmoperator.jdrupes.org/hosts` lacks the server",
		Advice:  "Add the server to the [annotation](tasks/disks.md#credentials-for-a-server).",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{
			ReasonSourceMissing, ReasonSourceNotReady, ReasonSourceInUse, ReasonSourceForbidden, ReasonSmaller,
		},
		Meaning: "The [copy](tasks/copy-disks.md) can't start yet",
		Advice:  "Follow the message. A source is free when no VM uses it.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonSnapshotMissing, ReasonSnapshotNotReady, ReasonTooSmall},
		Meaning: "The disk can't be created from the [snapshot](tasks/disk-snapshots.md) yet",
		Advice:  "Wait for the snapshot, or create a new disk that is large enough.",
	},
	{
		Phases: "WaitForFirstConsumer", Reasons: []vmstatus.Reason{ReasonConsumer},
		Meaning: "The volume is created and the image is imported when the first VM with the disk starts",
		Advice:  "Start a VM with the disk.",
	},
	{
		Phases: "WaitForUserUpload", Reasons: []vmstatus.Reason{ReasonUpload},
		Meaning: "The data is missing",
		Advice:  "[Upload](tasks/virtual-images.md#upload) the image.",
	},
	{
		Phases: "Provisioning", Reasons: []vmstatus.Reason{ReasonStarting},
		Meaning: "The pod `vd-<name>-import` is starting",
	},
	{
		Phases: "Provisioning", Reasons: []vmstatus.Reason{ReasonUnschedulable, ReasonImagePull},
		Meaning: "The import pod fits on no node, or its container image can't be pulled",
		Advice:  "Read the message: it contains the answer of the scheduler or the registry.",
	},
	{Phases: "Provisioning", Reasons: []vmstatus.Reason{ReasonImporting}, Meaning: "The import is running"},
	{
		Phases: "Provisioning", Reasons: []vmstatus.Reason{ReasonSourceChanged, ReasonPodGone, ReasonPodFailed},
		Meaning: "The last attempt failed, or for one of these [reasons](tasks/import.md#when-something-goes-wrong). " +
			"The next attempt follows",
	},
	{
		Phases: "Provisioning", Reasons: []vmstatus.Reason{ReasonStoring},
		Meaning: "The copy of an image is ready, and its claim is being completed",
	},
	{
		Phases: "Ready", Reasons: []vmstatus.Reason{reasonImported, reasonReady},
		Meaning: "VMs can use the disk. With the reason `Refused`, it can't grow: the message shows why",
	},
	{
		Phases: "Resizing", Reasons: []vmstatus.Reason{ReasonGrowing},
		Meaning: "The volume is growing. VMs can use the disk",
	},
	{
		Phases: "Resizing", Reasons: []vmstatus.Reason{ReasonGrowsLater},
		Meaning: "The node of a VM with the disk completes the change",
		Advice:  "Start a VM with the disk.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonClaimTaken, ReasonPodTaken},
		Meaning: "An unrelated claim or pod has the name that the disk needs",
		Advice:  "Rename the disk, or delete the other object.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{ReasonClaimLost, reasonClaimDeleted},
		Meaning: "The claim or its volume is gone or is being deleted",
		Advice:  "Restore the data from a backup into a new disk.",
	},
	{Phases: "Terminating", Reasons: []vmstatus.Reason{ReasonDeletion}, Meaning: "The disk is being deleted"},
	{
		Phases: "any", Reasons: []vmstatus.Reason{reasonAttached, reasonFree},
		Meaning: "For the condition `InUse`: a VM uses the disk, or not",
	},
	{
		Phases: "any", Reasons: []vmstatus.Reason{ReasonFetchable, ReasonNotFetched, ReasonEnding},
		Meaning: "For an [export](tasks/copy-disks.md#export-a-disk): the data can be fetched, no user has " +
			"fetched it in time, or an earlier pod is being deleted",
	},
}

// UseExplanations explain why a VM can't use a disk or image.
var UseExplanations = []vmstatus.Explanation{
	{
		Reasons: []vmstatus.Reason{ReasonMissing, ReasonImageMissing},
		Meaning: "The disk or image doesn't exist",
		Advice:  "Create it, or correct the name.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonNotReady, ReasonImageNotReady},
		Meaning: "Its data isn't complete yet",
		Advice:  "Wait, or look up the [reason](reference/disks.md#phases-of-a-disk) of the disk.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonInUse},
		Meaning: "Another VM uses the disk",
		Advice:  "Stop the other VM, or detach the disk from it.",
	},
	{Reasons: []vmstatus.Reason{ReasonCopied}, Meaning: "The disk is being copied. The VM starts afterward"},
	{
		Reasons: []vmstatus.Reason{ReasonFailed, ReasonImageFailed},
		Meaning: "The disk or image has failed",
		Advice:  "Look up the [reason](reference/disks.md#phases-of-a-disk) of the disk.",
	},
	{
		Reasons: []vmstatus.Reason{ReasonDeleted, ReasonImageDeleted},
		Meaning: "The disk or image is being deleted",
		Advice:  "Choose another disk.",
	},
	{
		Reasons: []vmstatus.Reason{reasonUnavailable},
		Meaning: "The manager can't read ClusterVirtualImages",
		Advice:  "Let an administrator give it the [rights](tasks/cluster-images.md).",
	},
	{
		Reasons: []vmstatus.Reason{reasonImageTaken},
		Meaning: "Another VirtualImage has the name that the copy of the ClusterVirtualImage needs",
		Advice:  "Rename the VirtualImage.",
	},
	{
		Reasons: []vmstatus.Reason{reasonOldImage},
		Meaning: "The copy of a deleted ClusterVirtualImage still exists",
		Advice:  "Wait until no VM uses the copy.",
	},
}
