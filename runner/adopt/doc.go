// Package adopt takes over a machine after its runner was killed. The guest does not notice it.
//
//	find.go     finds the machine by its lock and its record, and ends the remains of
//	            a machine with a guest that never ran
//	rebuild.go  recreates a wrong record by asking QEMU
//	adopt.go    restores the VM, its taps and its processes for the new runner
//
// Errors never stop a running guest.
//
// See docs/decisions/0025-adoption.md and docs/decisions/0054-record-made-again.md.
package adopt
