// Package supervisor keeps a runner running: it is the first process of a
// container, or any other that is to notice a runner's death.
//
//	code, err := supervisor.Run(ctx, supervisor.Spec{Path: exe, Args: argv, Log: log})
//	os.Exit(code)
//
// A runner that ends by itself ends the supervisor, with the same exit code. One
// that a signal ends was killed, and is started again: its QEMU runs on and is
// adopted. So is one that fails and leaves processes, which would die with a
// container, unless the VM was asked to stop. A Go program that panics exits with 2 like one that was called wrongly;
// therefore a runner is started with GOTRACEBACK=crash, which has it end by SIGABRT
// instead.
//
// Signals that ask for something are passed on. TERM and INT are not lost when no
// runner is there to get them, or when they kill one that has not come to listen to
// them yet: the next runner is started with the knowledge that it has been asked to
// stop (AskedToStop).
//
// Processes that lose their parent, QEMU first of all, become children of the
// supervisor, which collects them when they end; from a runner's death until a minute
// after the next one's start, no earlier than then, so that this one can see how QEMU
// has ended meanwhile (process.ID.Ended).
//
// It does next to nothing at all: after that minute no timer runs and no descriptor is open while the
// runner lives. The time between deaths is what decides how fast the next runner is
// started (delay).
//
// See docs/decisions/0022-init.md.
package supervisor
