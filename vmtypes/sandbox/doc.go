// Package sandbox runs untrusted work in a separate process, with strict limits.
//
// The process is the same program, started again by [Run]. It recognizes its task from its environment in
// [Serve], which main must call first. Each process handles one request, with these limits:
//
//   - 256 MiB of memory
//   - 5 s of processor time
//   - no new descriptors
//   - only the system calls that the Go runtime needs to compute and to write the answer
//
// So the process cannot open a file or a socket, or start another process. It asks its parent for all other
// information.
//
// A process that reaches a limit is killed, and Run returns the limit. The parent also limits what it reads from
// the process, because the work may have taken the process over.
//
// See docs/decisions/0030-sandbox.md.
package sandbox
