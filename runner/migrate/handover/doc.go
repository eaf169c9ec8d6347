// Package handover executes the decisions of package migrate: it moves a guest from one QEMU to another, between
// two runners.
//
//	source.go    the side that has the guest
//	target.go    the side that receives it
//	mirror.go    copies of disks, at the source
//	export.go    copies of disks, at the target
//	viewers.go   SPICE clients, which move with the guest
//	image.go     the images to which disks are copied
//	note.go      what survives a killed runner: migration.json in the data directory
//	commands.go  QEMU's commands
//	converge.go  whether a migration makes progress, and what to do if not: pure
//
// Each side is one goroutine, which receives events one by one and carries out the resulting actions. Waiting for
// a message, a QEMU or the network happens in separate goroutines that report their results as events. When the
// context of a side ends, the side stops where it is, as if its runner had been killed, and the next runner
// continues.
//
// The guest's bytes pass through the runners. Each QEMU has one end of a socket pair, and a stream of package
// link connects the runners. QEMU therefore needs no port, certificate or network access, and the stream ends
// when a runner is killed.
//
// See docs/decisions/0130-hand-over.md and docs/decisions/0131-migration-stream.md.
package handover
