// Package migration moves the guest of a VM to another pod.
//
//	decide.go  decides the next actions; pure
//	calls.go   makes the request to the source runner, which lasts until the guest has moved
//
// During a migration the VM's stateful set has two pods: the guest's pod, and a pod with a runner that waits for the
// guest. That target runner reports in the VM's status.arriving. The manager gets an invitation from it and passes it
// to the guest's runner. The two runners do the rest (runner/migrate/handover). There is never more than one guest,
// even if the manager or a pod fails, because each runner's data record which runner has the guest.
//
//	Preparing   the stateful set has 2 pods; the second pod's runner waits
//	Moving      POST /v1/migrate at the guest's runner, until it answers
//	Completed   status.podOrdinal refers to the second pod; the stateful set has only that pod
//	Failed      the stateful set has only the first pod
//
// The stage is recorded in the VM's status.migration before the manager acts on it. A manager that takes over in stage
// Moving asks the guest's runner for the result of the request. A runner cancels the request if its client is gone.
//
// A migration can copy disks that only one node can use at a time. The runners copy them into new claims from stage
// Preparing. The disks switch to these claims before the stage becomes Completed.
//
// See docs/decisions/0138-migration-in-the-cluster.md, and docs/decisions/0160-copies-of-local-disks.md.
package migration
