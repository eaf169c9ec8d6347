// Package migration moves the guest of a VM to another pod.
//
//	decide.go  what is to be done next: pure
//	calls.go   the request to the source's runner, which lasts as long as the guest is being moved
//
// A stateful set has two pods for a while: the guest's, and one whose runner waits for it. The runner of that one
// says so in status.arriving of the VM. The manager gets the invitation from it, and hands it to the guest's runner.
// Those two do the rest between them (runner/migrate/handover): whatever becomes of the manager, of a pod, or of what
// is decided here, there is never more than one guest, as each runner's data say whose the guest is.
//
//	Preparing   stateful set with 2 pods; the second one's runner waits
//	Moving      POST /v1/migrate at the guest's runner, until it answers
//	Completed   status.podOrdinal is the second one's; the stateful set has that pod only
//	Failed      the stateful set has the first pod only
//
// How far it is, is in status.migration of the VM, which is written before what follows from it is done. A manager
// that takes over in the stage Moving asks the guest's runner what has become of the request, which a runner
// withdraws whose client is gone.
//
// Disks that only one node at a time can have are copied by the runners, if that is asked for: into claims that are
// made in the stage Preparing, and that the disks get before the stage is Completed.
//
// See docs/decisions/0138-migration-in-the-cluster.md, and docs/decisions/0160-copies-of-local-disks.md.
package migration
