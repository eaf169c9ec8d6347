// Package childprocess runs a child process, logs its output and reports how it ended. It can also take over a
// process that an earlier runner has left.
//
//	p, err := childprocess.Start(childprocess.Spec{Name: "swtpm", Path: "/usr/bin/swtpm", Args: args}, logger)
//	...
//	select {
//	case <-p.Done():
//		return fmt.Errorf("swtpm ended: %s: %s", p.Exit(), p.Tail())
//	case <-ready:
//	}
//	...
//	err = p.Terminate(ctx, 5*time.Second)
//
// The output is logged line by line, with limited length and safe for a terminal, in messages "output" with the keys
// process, stream and line. Both streams are logged at the same level, because many programs write more than errors
// to stderr. Tail returns the end of stderr for the report of a failure.
//
// Each process runs in a new session, and therefore in a new process group. A Ctrl-C for the runner doesn't reach
// it. The same applies to the HUP that the kernel sends to a stopped process when its parent in the same session
// ends.
//
// A process survives when its runner is killed (there is no PR_SET_PDEATHSIG), because the next runner can take over
// a running QEMU. That runner identifies the process by its number and start time (ID), which the first runner has
// recorded, or by a file or socket that it has open (Holders). When the process ends, the rest of its group is
// killed.
//
// Signals go to the process via a kernel handle (pidfd), never to a number that may belong to another process by
// now.
package childprocess
