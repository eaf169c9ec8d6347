// Package supervisor keeps a runner running: it is the first process of a container, or any
// other parent that restarts a killed runner.
//
//	code, err := supervisor.Run(ctx, supervisor.Spec{Path: exe, Args: argv, Log: log})
//	os.Exit(code)
//
// When the runner exits, the supervisor exits with the same code. A runner that was ended by
// a signal was killed and is restarted; its QEMU is still running and is adopted. So is a
// runner that failed and left processes behind, which would die with a container, unless a
// stop of the VM was requested. A Go program that panics exits with 2, as it does after
// wrong usage; so the runner is started with GOTRACEBACK=crash and ends by SIGABRT instead.
//
// Signals with a meaning for the runner are forwarded. TERM and INT are not lost if no runner
// is there to receive them, or if they kill one that does not handle them yet: the next
// runner learns that a stop was requested (AskedToStop).
//
// Processes that lose their parent, QEMU in particular, become children of the supervisor,
// which reaps them when they end. After a runner's death it postpones that until a minute
// after the start of the next one, so that the new runner can see how QEMU has ended
// meanwhile (process.ID.Ended).
//
// The supervisor itself is idle: after that minute it has no timer, and no open descriptor
// while the runner lives. How soon the next runner is started depends on the time between
// deaths (delay).
//
// See docs/decisions/0022-init.md.
package supervisor
