// Package decide contains the manager's decisions about a VM. Its functions are pure: they use no client and no
// clock.
//
// Decisions follow from each other:
//
//  1. A [Snapshot] contains what is known when a reconciliation begins.
//  2. Each step of the reconciliation returns its result and a [Report] of its problems.
//  3. Snapshot and reports together form a [Situation].
//  4. The Situation determines the [Decision] whether the VM needs a pod, and the [Phase] that users see.
//  5. [Status], [Events] and [FinalStatus] return what is written about the VM.
//
// The package also contains the manager's side of the shutdown handshake with the runner: [Decide] reads the outcome
// that the runner has reported or its container has left (pod.go). As a result, the VM stops, starts again in a new
// pod, or waits after a failure (failures.go). See docs/decisions/0040-end-of-guest.md.
package decide
