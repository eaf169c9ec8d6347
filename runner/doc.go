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
// left (cleanup.go). QEMU and the helpers are processes of their own groups: a
// signal for the runner asks the guest to shut down, it doesn't hit QEMU.
//
// Only one runner can run a VM, which has the lock runner.lock in the data
// directory. The processes of the machine inherit another (lock.go). Who has the
// first and doesn't get the second is the successor of a runner that was killed:
// instead of starting a machine it adopts the one that runs, by the record that
// was left in the runtime directory (adopt.go, record.go).
package runner
