package decide

import (
	"vmop/manager/addresses"
	"vmop/manager/disk"
	"vmop/vmstatus"
)

// AdviceFor returns what to do about the reason of a VM's phase or condition as plain text, or "" if no action is
// needed.
func AdviceFor(reason string) string {
	return vmstatus.AdviceFor(reason,
		Explanations, disk.UseExplanations, addresses.UseExplanations, vmstatus.Explanations)
}

// Explanations explain the reasons of phases, in the order of the documentation.
var Explanations = []vmstatus.Explanation{
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonUnschedulable},
		Advice: "Change the [fields](tasks/placement.md#when-there-is-no-node) that the message lists after the " +
			"scheduler's answer.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{"NotSeen"}, // the default of the resource's definition
		Advice: "No manager is running for this namespace. Check `kubectl get deployment vm-operator`, its log, and the " +
			"VM's namespace.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonPodRefused},
		Advice: "Correct the field in the message: Pod Security, a quota, a limit or a priority class forbids the pod.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonMissingClaim, ReasonClaimPending},
		Advice: "Provide the claim (often `vmop-image-repository`) or its volume. The message names claim, storage " +
			"class and field.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonClaimDeleted},
		Advice: "Wait. An empty claim replaces a deleted claim.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonImagePull},
		Advice: "The node can't pull the runner's image. Check its name, and the access to its registry.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{reasonContainer},
		Advice: "Read the kubelet's message.",
	},
	{
		Phases: "Pending, Stopping", Reasons: []vmstatus.Reason{reasonWaitingForOldPod},
		Advice: "Wait. Another pod may still use the disks.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonOldObject},
		Advice: "Check what the finalizers of a deleted VM's object with this name wait for.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{reasonPodFailed, "Evicted"}, // the latter is the pod's
		Advice: "Wait. The manager creates a new pod.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonRetrying},
		Advice: "The manager gets an error and retries. Read its log.",
	},
	{
		Phases: "Starting", Reasons: []vmstatus.Reason{reasonRestarting},
		Advice: "The container ends repeatedly. Read `kubectl logs --previous`.",
	},
	{
		Phases: "Running", Reasons: []vmstatus.Reason{reasonNoGuestAgent},
		Advice: "No agent has reported that the guest has booted. Ignore this, or install " +
			"[qemu-guest-agent](reference/guest-agents.md).",
	},
	{
		Phases: "any", Reasons: []vmstatus.Reason{reasonNodeLost},
		Advice: "The node doesn't report. [Decide what to do](reference/kubernetes.md#when-a-node-is-lost).",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonFetchingType},
		Advice: "Wait. The manager reads the VM type from its registry.",
	},
	{
		Phases: "Failed, Pending", Reasons: []vmstatus.Reason{ReasonTypeNotFetched},
		Advice: "The registry doesn't contain this VM type, or doesn't answer. The manager retries within ten minutes.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{ReasonTypeRefused, ReasonTypesMissing},
		Advice: "Correct the VM type at the line in the message, or provide it.",
	},
	{
		Phases: "Pending", Reasons: []vmstatus.Reason{ReasonSecretMissing},
		Advice: "Create the Secret that [configures the guest](tasks/cloud-init.md#in-a-cluster), with the name and " +
			"type in the message.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{ReasonSecretKey},
		Advice: "Add the missing or empty key to the Secret. The manager then retries immediately.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonStartFailed, ReasonCrashed},
		Advice: "Look up QEMU's error from the message in [Errors of a running VM](concepts/faults.md).",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonNodeMissing},
		Advice: "Start the node in `spec.nodeName`, or correct the name.",
	},
	{
		Phases: "Failed, Pending", Reasons: []vmstatus.Reason{ReasonNameTaken},
		Advice: "An object that the VM needs belongs to another owner. Rename the VM, or delete the object.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{ReasonClaim},
		Advice: "A claim belongs to another VM or to no VM: give the disk another name, or the claim the VM's labels. " +
			"Or change `volumeMode`, which differs from the claim's.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{ReasonNotTrusted},
		Advice: "The VM uses something that must not run " +
			"[with the rights of its pod](reference/manager.md#what-is-trusted). Follow the message.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{ReasonRefused},
		Advice: "The API server refuses objects of the VM. A running VM keeps running, and `state: Stopped` stops it.",
	},
	{
		Phases: "Terminating", Reasons: []vmstatus.Reason{ReasonDeleted},
		Advice: "If finalizers keep the VM, its guest keeps running. The message lists them.",
	},
	{
		Phases: "any", Reasons: []vmstatus.Reason{
			reasonScheduling, ReasonPodMissing, ReasonPodStarting, ReasonGuestShutdown, reasonGuestEnded,
			ReasonStopRequested, reasonPodDeleted, ReasonStopped,
		},
	},
}
