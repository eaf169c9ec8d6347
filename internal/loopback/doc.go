// Package loopback denies a guest access to the loopback addresses of its host.
//
//	loopback.Serve(isInternal)                  // first in main, if this process is a guard
//	calls, reason := loopback.Deny()            // in a thread that then starts QEMU, and ends
//	reason = loopback.Guard(calls, pid, limits) // of that QEMU
//
// QEMU's user network opens a socket of the host for each connection of the guest. It has no option that denies
// loopback addresses: 10.0.2.2 leads to 127.0.0.1, and a packet to 127.0.0.1 also arrives there. Therefore the
// kernel asks before QEMU connects or sends (seccomp_unotify(2)), and a guard answers. The guard is a process that
// lives as long as QEMU, even if the runner is killed.
//
//	filter_linux.go  makes the kernel ask
//	guard_linux.go   starts the guard, and answers
//	address.go       decides which addresses are denied
//
// The guard protects against the guest. It doesn't protect against a guest that has broken out of QEMU, which can
// change an address after the guard has read it.
//
// The guard also denies internal addresses to connections that QEMU opens itself, such as for a CD by URL.
//
// See docs/decisions/0177-host-loopback.md and docs/decisions/0184-redirects-of-cds.md.
package loopback
