// Package migrate decides how a running guest moves from one runner, the source, to another, the target. It
// contains pure functions of the events on each side. It does no I/O: package handover sends, records and talks
// to QEMU.
//
//	protocol.go  messages, records, events and actions of both sides
//	source.go    the side that has the guest
//	target.go    the side that receives it
//
// The guest moves through QEMU's own migration, with the capability pause-before-switchover, into a QEMU that was
// started paused. Therefore the move is not finished when all data has arrived. The target resumes the guest when
// the source sends Go. The source sends Go after it has recorded that it will not resume the guest itself any
// more.
//
//	source                                  target
//	record Migrating
//	Offer ─────────────────────────────────▶ compares plans; record Expecting; qemu -incoming defer -S
//	copies memory and disks ◀──────── Accept
//	the guest is paused; the rest is copied
//	                        ◀──────── Loaded
//	record Released
//	Go ────────────────────────────────────▶ record Taken; cont
//	record Moved            ◀─────── Resumed
//	Known ─────────────────────────────────▶ no record
//	ends its QEMU
//
// Until Released is recorded, every error ends with the guest continuing at the source. From then on the source
// repeats Go until it receives Resumed or Aborted. The target records Aborted before it sends it, so it never
// resumes the guest later. If the target stops answering, the guest stays paused at the source until someone is
// certain that the target's host is gone ([Fenced]).
//
// The package's test covers all orders of messages, lost connections, and kills of QEMUs and runners between any
// two actions. See docs/decisions/0130-hand-over.md.
package migrate
