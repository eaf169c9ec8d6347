// Package decide has the manager's decisions about a VM: pure functions of what is
// known, without a client or a clock.
//
// A [Snapshot] is what is known when a reconciliation begins. Each step of the
// reconciliation returns its result and a [Report] of what it could not do. From both
// follows a [Situation], and from that a [Decision], whether there is to be a pod, and
// the [Phase] for people. [Status], [Events] and [FinalStatus] are what is written about
// it in the end.
//
// The shutdown handshake between runner and manager is here, too: [Decide] reads the
// outcome that the runner of the pod has reported, or that its container has left
// (pod.go), and returns what follows: the VM stops, is started again in a new pod, or waits
// after a failure (failures.go). See docs/decisions/0040-end-of-guest.md.
package decide
