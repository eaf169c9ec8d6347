// Package process runs a child process whose output is logged and whose end is
// known, or takes charge of one that an earlier runner has left.
//
//	p, err := process.Start(process.Spec{Name: "swtpm", Path: "/usr/bin/swtpm", Args: args}, logger)
//	...
//	select {
//	case <-p.Done():
//		return fmt.Errorf("swtpm ended: %s: %s", p.Exit(), p.Tail())
//	case <-ready:
//	}
//	...
//	err = p.Terminate(ctx, 5*time.Second)
//
// What a process says is logged line by line, bounded and fit for a terminal, by
// the constant message "output" with the keys process, stream and line. Both
// streams are logged at the same level: many programs write to stderr what is no
// error. The last of stderr is kept for the report of a failure (Tail).
//
// A process gets a session of its own, and so a process group: a Ctrl-C meant for
// the runner does not reach it, nor does the HUP that the kernel sends to a stopped
// process whose parent in the same session ends. It survives a runner that is
// killed: nothing ties its life to ours (no PR_SET_PDEATHSIG), since the next runner may take a running
// QEMU over: by its number and start time (ID), which the first has written down,
// or by a file or socket that it has open (Holders). When the process ends, what is left of its group is killed.
//
// Signals go to the process by a handle of the kernel (pidfd), never to a number
// that may be another process by now.
package process
