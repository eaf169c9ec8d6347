// Package sandbox runs work that is not trusted in a process of its own, with
// limits that hold whatever the work does.
//
// The process is the program itself, started once more ([Run]) and recognised by
// its environment ([Serve], to be called first in main). One request is one
// process: 256 MiB of memory, 5 s of processor time, no new descriptors, and no
// system calls but those that the Go runtime needs to compute and to write the
// answer: it opens no file, no socket, starts nothing. What it cannot know it
// asks its parent.
//
// A process that reaches a limit is killed, and Run returns the limit. What the
// process writes is read with bounds, too: the work may have taken it over.
//
// See docs/decisions/0030-sandbox.md.
package sandbox
