// Package handover carries out what runner/migrate decides: it moves a guest from one QEMU to another one,
// between two runners.
//
//	source.go    the side that has the guest
//	target.go    the side that gets it
//	mirror.go    the copies of disks, at the source
//	export.go    the same at the target
//	viewers.go   clients of SPICE, who go with the guest
//	image.go     what disks are copied to
//	note.go      what survives a runner that is killed: migration.json in the data directory
//	commands.go  what is said to QEMU
//	converge.go  whether a migration gets anywhere, and what is done if it doesn't: pure
//
// A side is one goroutine, which learns of events one by one and carries out what follows from them. Whatever
// waits, for a message, a QEMU or the network, is a goroutine of its own that brings its result as an event. When
// the context of a side ends, it stops where it is, as if its runner had been killed: the next one continues.
//
// The bytes of the guest go through the runners: each QEMU has one end of a socket pair, and between the
// runners they are in a stream of package link. So QEMU needs no port, no certificate and no right to
// use the network, and a runner that is killed takes the stream with it.
//
// See docs/decisions/0130-hand-over.md and docs/decisions/0131-migration-stream.md.
package handover
