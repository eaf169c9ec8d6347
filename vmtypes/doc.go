// Package vmtypes holds VM types: the stock modules, and the engine that
// evaluates them.
//
// A VM type is a Starlark module that defines launch(vm, host). It computes,
// from the vm section and what is known of the host, one part: all it takes to
// run the machine. [Library.Load] finds a type by name and loads its module
// graph, [Type.Launch] calls it and returns the launch plan (package plan).
//
// # Modules
//
// There are two spellings of load and no search path:
//
//	load("@vmtypes//lib/tpm.star", "tpm")  # the embedded library
//	load("x.star", "x")                    # the file beside the loading one
//
// Stock modules are embedded and always there; custom types are files in one
// flat folder, read through an os.Root, so that no link leads out of it. A
// module is evaluated once, in a thread of its own; finding it again while it
// is being loaded is a cycle.
//
// # The language
//
// What a module can use is in [Predeclared], documented in docs/vm-types. It is
// Starlark without recursion, while and global reassignment, and with no way to
// reach the world but host.find, which reports whether a file exists. Inputs are
// frozen. A call is bounded by steps and by the context, and a panic of the
// interpreter becomes an error. Memory is not bounded (Starlark cannot), so
// types that are not stock are evaluated in a child process (package evaluate).
//
// # Errors
//
// An error is an [*Error]: what went wrong, the place with the source line and
// a caret, the calls that led there, and a suggestion where a name was misspelt.
//
// # Pinning
//
// [Type.Archive] is the whole module graph as one readable text, [LoadArchive]
// makes a type of it again: a guest keeps its type although the library
// changes.
//
// See docs/decisions/0012-nodefaults.md.
package vmtypes
