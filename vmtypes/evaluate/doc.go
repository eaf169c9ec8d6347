// Package evaluate evaluates untrusted VM types. The callers are:
//
//   - the commands for authors, which evaluate types from other authors
//   - the manager, which works for many users
//   - the runner, which must protect its VM from a type with an endless loop
//
// Stock types are part of the program and are evaluated in its process. All other types are evaluated in a separate
// process (package sandbox). The parent sends the modules as texts and answers the type's questions about the host.
// Plans and errors, with their places, are the same as in a direct call of the type.
//
// A program that calls this package must call [Serve] first in main. To evaluate several types, or a type several
// times, use a [Group].
package evaluate
