// Package adopt takes a machine over whose runner was killed: the guest does not
// notice.
//
//	find.go     finds the machine by its lock and its record, and ends what is left of
//	            one whose guest never ran
//	rebuild.go  makes a record again that is wrong, by asking QEMU
//	adopt.go    makes the VM, its taps and its processes what they were to the earlier
//	            runner
//
// Whatever goes wrong, a guest that runs is let run.
//
// See docs/decisions/0025-adoption.md and docs/decisions/0054-record-made-again.md.
package adopt
