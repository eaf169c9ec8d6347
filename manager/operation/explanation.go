package operation

import "vmop/vmstatus"

// Explanations explain the reasons of the phases of operations, in the order of the documentation.
var Explanations = []vmstatus.Explanation{
	{Phases: "InProgress", Reasons: []vmstatus.Reason{ReasonAccepted}, Meaning: "The operation waits for its effect"},
	{Phases: "Completed", Reasons: []vmstatus.Reason{ReasonCompleted}, Meaning: "The VM is in the requested state"},
	{Phases: "Superseded", Reasons: []vmstatus.Reason{reasonSuperseded}, Meaning: "Another operation has replaced it"},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{ReasonNotFound},
		Meaning: "There is no VM with this name in the namespace",
		Advice:  "Correct the name in a new operation.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonDeleted},
		Meaning: "The VM was deleted before the operation took effect",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonInProgress},
		Meaning: "Another operation of the VM is in progress",
		Advice:  "Wait for it, or delete it before it begins.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonNotApplicableForPolicy},
		Meaning: "The VM's run policy decides about this",
		Advice:  "Change `spec.runPolicy`, or use the operation in the message.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonNotApplicableForPhase},
		Meaning: "The operation is impossible in the VM's phase",
		Advice:  "Use the operation in the message.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonNotApplicableForType},
		Meaning: "The VM's type is refused, so the VM could not start again",
		Advice:  "Correct the VM type first.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonNotMigratable, reasonMigrationFailed},
		Meaning: "The VM can't [move](tasks/migration-problems.md), or the migration has failed. The guest continues " +
			"where it was",
		Advice: "Follow the message.",
	},
	{
		Phases: "Failed", Reasons: []vmstatus.Reason{reasonOverruled},
		Meaning: "Someone has requested another state of the VM since",
	},
}
