// Package migrate decides how a running guest moves from one runner to another, the source and
// the target: pure functions of what has happened on either side. Nothing is sent, recorded or said to
// QEMU here.
//
//	protocol.go  what both sides say to each other, record and do
//	source.go    the side that has the guest
//	target.go    the side that gets it
//
// The guest goes through QEMU's own migration, with the capability pause-before-switchover, into a
// QEMU that is started paused. So it is not enough that all of it has arrived: the target resumes it
// when the source says so, and the source says so when it has recorded that it will not resume the guest
// itself any more.
//
//	source                                  target
//	record Migrating
//	Offer ─────────────────────────────────▶ compares plans; record Expecting; qemu -incoming defer -S
//	copies memory and disks ◀──────── Accept
//	the guest is paused; the rest is copied
//	                        ◀──────── Loaded
//	record Released
//	Go ────────────────────────────────────▶ record Resumed; cont
//	record Moved            ◀─────── Resumed
//	Known ─────────────────────────────────▶ no record
//	ends its QEMU
//
// Until Released is recorded whatever goes wrong ends with the guest continuing at the source. From then on
// the source asks, by another Go, until it knows: Resumed, or Aborted, which is recorded before it is said,
// so that the target never resumes the guest later. A target that doesn't answer any more keeps the guest
// paused at the source until someone is certain that the target's host is gone ([Fenced]).
//
// The test of the package goes through all orders of messages, losses of connections, and kills of
// QEMUs and runners, each between any two actions. See docs/decisions/0130-hand-over.md.
package migrate
