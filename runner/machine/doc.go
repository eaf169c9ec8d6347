// Package machine makes all decisions about a running VM. It does no I/O and has no clock. Its inputs are QEMU's
// events and replies, requests of users and of the configuration, ends of processes, and the time. Its outputs
// are actions.
//
// A State is one VM, from the moment when QEMU is started, paused, or found running, until QEMU's end. Its driver
// (package drive) runs a loop:
//
//	step := state.Next(now)
//	… carry out step.Actions, in order
//	… when something happens, give it to a method of the State
//	… then, or at step.Wake, call Next again
//
// A State consists of parts, one per file. They share only the line (line.go), which sends commands and returns
// replies:
//
//	connection.go  reconnects to a QEMU after its monitor was lost; detects late replies
//	start.go       brings the paused machine to the wanted configuration, and lets the guest run
//	runstate.go    queries the machine's state; pause, resume, reset: the only "cont"
//	move.go        leaves the machine alone while its guest moves to another runner
//	disks.go       resumes a VM that QEMU has stopped because of a disk (recovery.go)
//	faults.go      problems of the guest and its disks (faultlog.go)
//	helperloss.go  helper processes that end, and a guest without its TPM
//	ports.go       which agents in the guest have opened their port
//	screens.go     who watches the screen (package viewers)
//	wanted.go      applies the active configuration with package reconcile
//	freeze.go      freezes the guest's file systems for a time, and thaws them
//	stop.go        a stop, from a request to the guest to SIGKILL
//	ending.go      QEMU's end, and how it is interpreted (outcome.go)
//
// The line returns answers in order, and every part talks to QEMU only through it. Therefore the parts need no
// locks, and a test can simulate QEMU, the guest and the clock as a dialogue.
package machine
