// Package runner runs one virtual machine, from its configuration to its end. Run follows the states of a VM.
// Each state has its own package or file:
//
//	Initializing   prepare          configuration, directories, VM type, plan
//	Starting       launch           files, cloud-init image, taps, helpers, QEMU -S
//	               boot.go          hands QEMU to the driver: CPUs, memory, cont
//	Booting        drive, machine   the guest runs
//	Running        agents           the guest runs, but no agent answers
//	Booted         agents           the guest's agent has answered
//	Terminating    machine/stop.go  guest agent, ACPI, quit, TERM, KILL
//	Stopped        outcome.go       how it ended, and the exit code
//
// When Run returns, it ends everything that it started, in reverse order (package cleanup). A runner that panics
// leaves everything as it is.
//
// While the guest runs, one goroutine owns the machine (package drive), and a pure state machine decides what to
// do next (package machine). In parallel, package follow watches the configuration and evaluates changed VM
// types.
//
// The machine survives a killed runner. The next Run finds it through the files of package record and adopts it
// instead of creating another machine (package adopt), without effect on the guest. Two locks in the data
// directory ensure that at most one runner and one machine exist (package lock).
//
// In a pod, the runner waits for a stop request after its guest has shut itself down (previousend.go,
// stopwait.go).
package runner
