// Package runner runs one virtual machine, from its configuration to its end.
//
// Prepare computes everything that can be computed without starting anything: the
// vm section with its defaults, the pinned VM type, the launch plan; `vmrunner plan`
// is little more than a call of it. Run carries the plan out. It reads like the
// states it goes through:
//
//	Initializing   prepare.go       configuration, directories, VM type, plan
//	Starting       start.go         files, cloud-init image, taps, helpers, QEMU -S
//	               boot.go          hands QEMU to the driver: CPUs, memory, cont
//	Booting        drive, machine   the guest runs
//	Booted         agents           its agent has answered
//	Terminating    machine/stop.go  guest agent, ACPI, quit, TERM, KILL
//	Stopped        outcome.go       how it ended, and the exit code
//
// Everything that is started is ended in the reverse order, however Run returns
// (cleanup.go); a runner that panics touches nothing. QEMU and the helpers run in
// sessions of their own: a signal to the runner asks the guest to shut down, and
// does not reach QEMU.
//
// While the guest runs, one goroutine owns the machine (package drive), and a pure
// state decides what it does (package machine). This package follows the
// configuration beside it (configuration.go), and has changed VM types evaluated
// (evaluation.go).
//
// A killed runner does not end its machine. Run finds it, and adopts it instead of
// creating another (adopt.go): the guest does not notice. Two locks in the data
// directory ensure that there is never more than one of each (package lock). The
// link named runtime exists while a guest runs, and leads to the runtime directory
// with what the next runner needs (record.go):
//
//	machine.json   the processes, and all that the plan was made of; never changed
//	vmtype.txtar   the archive of the VM type
//	runner.json    how far the runner has come: the last reset, a stop request …
//	config.yaml    the configuration in force, if it is another than the first
package runner
