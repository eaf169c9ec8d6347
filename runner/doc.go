// Package runner runs one virtual machine, from its configuration to its end.
//
// Prepare makes everything of the machine that can be computed: the vm section
// with its defaults, the pinned VM type, the launch plan. It starts nothing,
// and `vmrunner plan` is little more than a call of it. Run carries the plan
// out. It reads like the states it goes through:
//
//	Initializing   prepare.go  configuration, directories, VM type, plan
//	Starting       start.go    files, cloud-init image, taps, helpers, QEMU -S
//	               boot.go     QMP: CPUs, balloon, passwords, then cont
//	Booting        run.go      the guest runs; wait for its end or for the word
//	Booted         agents.go   its agent has answered
//	Terminating    stop.go     guest agent, ACPI, quit, TERM, KILL
//	Stopped        outcome.go  who ended it, and the exit code
//
// What is started is ended in the reverse order, whichever way the function is
// left (cleanup.go); a runner that panics touches nothing. QEMU and the helpers
// are processes of sessions of their own: a signal for the runner asks the guest
// to shut down, it doesn't hit QEMU.
//
// A killed runner doesn't end its machine. Run finds what runs, and carries it
// on instead of creating it (adopt.go): the guest doesn't notice. Two locks in
// the data directory see to it that there is never more than one of each (lock.go):
// runner.lock is the runner's, and lock is inherited by all processes of the
// machine, so that it lasts as long as one of them. The link named runtime is
// there while a guest runs, and leads to the runtime directory with what the next
// runner needs (record.go):
//
//	machine.json   the processes, and all that the plan was made of; never changed
//	vmtype.txtar   the archive of the VM type
//	runner.json    how far the runner has come: the last reset, the word to stop …
//	config.yaml    the configuration in force, if it is another than the first
//
// While the guest runs, one loop (live.go) keeps the machine near its
// configuration, and connects anew when the connection to QEMU breaks (pulse.go).
package runner
