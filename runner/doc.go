// Package runner runs one virtual machine, from its configuration to its end. Run
// reads like the states that a VM goes through, each of which has a package:
//
//	Initializing   prepare          configuration, directories, VM type, plan
//	Starting       launch           files, cloud-init image, taps, helpers, QEMU -S
//	               boot.go          hands QEMU to the driver: CPUs, memory, cont
//	Booting        drive, machine   the guest runs
//	Running        agents           it does, and no agent answers
//	Booted         agents           its agent has answered
//	Terminating    machine/stop.go  guest agent, ACPI, quit, TERM, KILL
//	Stopped        outcome.go       how it ended, and the exit code
//
// Everything that is started is ended in the reverse order, however Run returns
// (package cleanup); a runner that panics touches nothing.
//
// While the guest runs, one goroutine owns the machine (package drive), and a pure
// state decides what it does (package machine). Beside it the configuration is
// followed, and changed VM types are evaluated (package follow).
//
// A killed runner does not end its machine. Run finds it by what package record has
// kept, and adopts it instead of creating another (package adopt): the guest does not
// notice. Two locks in the data directory ensure that there is never more than one of
// each (package lock). A runner in a pod whose guest has shut itself down waits to be
// ended (previousend.go, stopwait.go).
package runner
