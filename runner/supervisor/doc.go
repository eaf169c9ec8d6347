// Package supervisor keeps a runner running: it is the first process of a container, or another parent that
// restarts a killed runner.
//
//	code, err := supervisor.Run(ctx, supervisor.Spec{Path: exe, Args: argv, Log: log})
//	os.Exit(code)
//
// When the runner exits, the supervisor usually exits with the same code. It restarts the runner in two cases:
//
//   - A signal has ended the runner, so it was killed. Its QEMU is still running, and the new runner adopts it.
//   - The runner has failed and left processes behind, which would die with a container, and no stop of the VM
//     was requested.
//
// A Go program that panics exits with 2, the same as after wrong usage. The supervisor therefore starts the
// runner with GOTRACEBACK=crash, so that a panic ends it by SIGABRT.
//
// Signals with a meaning for the runner are forwarded. TERM and INT are not lost if there is no runner to receive
// them, or if they kill a runner that does not handle them yet: the next runner learns that a stop was requested
// (AskedToStop).
//
// Processes that lose their parent, QEMU in particular, become children of the supervisor, which reaps them when
// they end. After a runner's death it postpones that until a minute after the start of the next runner, so that
// the new runner can see how QEMU has ended (childprocess.ID.Ended).
//
// The supervisor itself is idle: after that minute it has no timer, and no open descriptor while the runner
// lives. The delay before the next runner is started depends on the time between deaths (delay).
//
// See docs/decisions/0022-init.md.
package supervisor
