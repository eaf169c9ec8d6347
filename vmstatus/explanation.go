package vmstatus

import (
	"slices"
	"strings"
)

// An Explanation describes what reasons mean and what to do about them. Programs show it, and the documentation
// contains it, so it exists only once.
type Explanation struct {
	// Reasons share the explanation.
	Reasons []Reason
	// Phases are the phases of a resource that have these reasons, separated by commas; "any" for all, and empty for
	// reasons of conditions.
	Phases string
	// Meaning describes the situation, and Advice what to do; Advice is empty if no action is needed. Both are
	// Markdown, with links relative to docs.
	Meaning, Advice string
}

// AdviceFor returns the advice for a reason as plain text, from the first explanation with advice, or "" if there is
// none.
func AdviceFor(reason string, tables ...[]Explanation) string {
	for _, table := range tables {
		for _, e := range table {
			if e.Advice != "" && slices.Contains(e.Reasons, Reason(reason)) {
				return withoutLinks(e.Advice)
			}
		}
	}
	return ""
}

// withoutLinks replaces links of Markdown by their texts.
func withoutLinks(text string) string {
	before, link, found := strings.Cut(text, "[")
	if !found {
		return text
	}
	name, rest, _ := strings.Cut(link, "](")
	_, rest, _ = strings.Cut(rest, ")")
	return before + name + withoutLinks(rest)
}

// Explanations explain the reasons of a runner, in the order of the documentation.
var Explanations = []Explanation{
	{Reasons: []Reason{ReasonRunnerStarted}, Meaning: "The runner is preparing or starting the VM"},
	{
		Reasons: []Reason{ReasonPreparingDisks},
		Meaning: "The runner creates disks from [images](tasks/images.md) before the start",
	},
	{Reasons: []Reason{ReasonVMStarted}, Meaning: "The guest has started"},
	{Reasons: []Reason{ReasonVMReset}, Meaning: "The guest was reset and is booting again"},
	{Reasons: []Reason{ReasonRunnerRestarted}, Meaning: "This runner has adopted the VM of a killed runner"},
	{Reasons: []Reason{ReasonNoGuestAgent}, Meaning: "The guest's agent has not answered, or doesn't exist"},
	{Reasons: []Reason{ReasonVMBooted}, Meaning: "The guest's agent has answered"},
	{Reasons: []Reason{ReasonVMTerminating}, Meaning: "A stop was requested"},
	{
		Reasons: []Reason{ReasonVMStopped},
		Meaning: "The VM has ended, or was stopped before its guest ran. See `outcome`",
	},
	{
		Reasons: []Reason{ReasonStartFailed},
		Meaning: "The guest could not be started, or the runner could not adopt the VM",
	},
	{
		Reasons: []Reason{ReasonDataMissing},
		Meaning: "A file prevents the start, with data for [cloud-init](tasks/cloud-init.md) or [Windows " +
			"Setup](tasks/sysprep.md)",
		Advice: "Provide or correct the file that the message names.",
	},
	{
		Reasons: []Reason{ReasonUnresponsive},
		Meaning: "QEMU [doesn't answer](concepts/faults.md#qemu-does-not-answer)",
		Advice: "Check the host's storage and memory. If QEMU [never " +
			"answers](concepts/faults.md#qemu-does-not-answer), stop the VM.",
	},
	{
		Reasons: []Reason{ReasonPaused},
		Meaning: "A user has paused the VM",
		Advice:  "Resume the VM when it should continue.",
	},
	{
		Reasons: []Reason{ReasonIOError},
		Meaning: "A [disk](concepts/faults.md#disks) has failed. The guest is paused",
		Advice:  "Free space, or repair the storage in the message. The VM then resumes automatically.",
	},
	{
		Reasons: []Reason{ReasonGuestPanicked},
		Meaning: "The guest's kernel has panicked",
		Advice:  "[Inspect the guest](concepts/faults.md#a-guest-that-panics), then reset the VM and resume it.",
	},
	{
		Reasons: []Reason{ReasonMachineHeld},
		Meaning: "QEMU has paused the machine for another reason",
		Advice:  "Resume the VM. If QEMU pauses it again, read the runner's log.",
	},
	{
		Reasons: []Reason{ReasonVmopAgentStarted, ReasonVmopAgentDisconnected},
		Meaning: "The log-in agent is connected, or not",
	},
	{Reasons: []Reason{ReasonNotRequested}, Meaning: "No user should be logged in"},
	{Reasons: []Reason{ReasonProcessing}, Meaning: "The agent is logging the user in"},
	{Reasons: []Reason{ReasonLoggedIn}, Meaning: "The user is logged in"},
	{Reasons: []Reason{ReasonLoginFailed}, Meaning: "The user could not be logged in"},
	{Reasons: []Reason{ReasonConnected, ReasonDisconnected}, Meaning: "The screen has a viewer, or not"},
	{Reasons: []Reason{ReasonApplied}, Meaning: "The configuration is active. The message lists deprecated options"},
	{Reasons: []Reason{ReasonApplying}, Meaning: "The configuration was read, and is not active yet"},
	{
		Reasons: []Reason{ReasonConfigInvalid},
		Meaning: "The newest configuration contains errors. The previous configuration stays active",
		Advice:  "Correct the fields that the message names.",
	},
	{
		Reasons: []Reason{ReasonNotPossible},
		Meaning: "Something in the configuration can't be done",
		Advice:  "Change the fields that the message names.",
	},
	{
		Reasons: []Reason{ReasonNotReset},
		Meaning: "A requested [reset](reference/operations.md) was not done: QEMU refused it, or the VM is paused",
		Advice:  "Resume the VM, then request the reset again.",
	},
	{Reasons: []Reason{ReasonChangesPending, ReasonNothingPending}, Meaning: "Changes need a restart, or not"},
	{Reasons: []Reason{ReasonTPMPresent, ReasonNoTPM}, Meaning: "The TPM works, or the VM has no TPM"},
	{
		Reasons: []Reason{ReasonHelperEnded},
		Meaning: "The TPM's process has ended",
		Advice:  "Stop and start the VM. The [TPM](concepts/faults.md#the-tpm) keeps its contents.",
	},
	{Reasons: []Reason{ReasonConfined}, Meaning: "QEMU and all helpers are confined"},
	{
		Reasons: []Reason{ReasonPartlyConfined},
		Meaning: "Helpers confine themselves; or QEMU lacks [its own root folder](concepts/confinement.md) and " +
			"reaches its user's unix sockets; or the guest reaches [loopback addresses of the " +
			"host](reference/networking.md#loopback-addresses-of-the-host)",
	},
	{
		Reasons: []Reason{ReasonNotConfined},
		Meaning: "QEMU is not confined: the kernel has no Landlock, or a container forbids it",
	},
	{
		Reasons: []Reason{ReasonNotRecorded},
		Meaning: "An earlier version of the runner started QEMU, without a record of the confinement",
	},
	{
		Reasons: []Reason{
			ReasonTPMLost, ReasonHelperLost, ReasonMachineFailed, ReasonWatchdogExpired, ReasonMemoryFailure,
			ReasonImageCorrupted, ReasonDirectoryLost,
		},
		Meaning: "Used for problems only: see [Errors of a running VM](concepts/faults.md)",
	},
}
