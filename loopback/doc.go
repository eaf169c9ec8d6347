// Package loopback keeps a guest from the loopback addresses of its host.
//
//	loopback.Serve()                          // first in main, if this process is a guard
//	calls, reason := loopback.Deny()          // in a thread that then starts QEMU, and ends
//	reason = loopback.Guard(calls, pid)       // of that QEMU
//
// QEMU's user network opens a socket of the host for each connection of the guest. It has no
// option against loopback addresses: 10.0.2.2 leads to 127.0.0.1, and a packet to 127.0.0.1
// gets there, too. So the kernel asks before QEMU connects or sends (seccomp_unotify(2)), and a
// guard answers: a process with QEMU's lifetime, which continues when the runner is killed.
//
//	filter_linux.go  makes the kernel ask
//	guard_linux.go   starts the guard, and answers
//	address.go       decides which addresses are denied
//
// The guard protects against the guest. A guest that has broken out of QEMU can change an address
// after the guard has read it.
//
// The guard also keeps what QEMU reads itself, such as a CD by URL, from internal addresses.
//
// See docs/decisions/0177-host-loopback.md and docs/decisions/0184-redirects-of-cds.md.
package loopback
