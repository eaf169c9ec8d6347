// Package machine decides everything that is decided about a running VM. It does
// no I/O and has no clock: QEMU's events and replies, wishes of users and of the
// configuration, ends of processes and the time go in; actions come out.
//
// A State is one VM, from the moment in which QEMU is started, paused, or found
// running, to QEMU's end. What drives it (package drive) goes round a loop:
//
//	step := state.Next(now)
//	… carry out step.Actions, in order
//	… when something happens, give it to a method of the State
//	… then, or at step.Wake, call Next again
//
// A State is composed of parts, one per file, which share nothing but the line
// (line.go), on which commands are said and replies return:
//
//	connection.go  connects again with a QEMU whose monitor was lost; late replies
//	start.go       makes the paused machine what is wanted, and lets the guest run
//	runstate.go    asks what the machine does; pause, resume, reset: the only "cont"
//	move.go        leaves it alone while its guest moves to another runner
//	disks.go       resumes a VM that QEMU has stopped because of a disk (recovery.go)
//	faults.go      what goes wrong with the guest and its disks (faultlog.go)
//	helperloss.go  helper processes that end, and a guest without its TPM
//	ports.go       which agents in the guest have opened their port
//	screens.go     who watches the screen (package viewers)
//	wanted.go      the configuration in force, by package reconcile
//	freeze.go      freezes the guest's file systems for a time, and thaws them
//	stop.go        a stop, from a request to the guest to SIGKILL
//	ending.go      QEMU's end, and what it means (outcome.go)
//
// Because the line answers in order, and every part says what it says here, none
// of them needs a lock, and a test plays QEMU, the guest and the clock as a
// dialogue.
package machine
