// Package vmtypes contains the stock VM types, and the engine that evaluates VM types.
//
// A VM type is a Starlark module that defines launch(vm, host). From the vm section and the known facts of the
// host, launch computes one part with everything that is needed to run the machine. [Library.Load] finds a type
// by name and loads its module graph. [Type.Launch] calls launch and returns the launch plan (package plan).
//
// # Modules
//
// There are two forms of load and no search path:
//
//	load("@vmtypes//lib/tpm.star", "tpm")  # the embedded library
//	load("x.star", "x")                    # a file in the same folder
//
// Stock modules are embedded and always available. Custom types are files in a flat folder. They are read through
// an os.Root, so that links cannot lead out of the folder. Each module is evaluated once, in its own thread. A
// module that loads itself, directly or indirectly, is an error.
//
// # The language
//
// [Predeclared] contains the names that a module can use; docs/vm-types documents them. The language is Starlark
// without recursion, while and global reassignment. The only access to the outside world is through host:
// host.find and host.exists check for files, host.firmware returns firmware descriptors, host.pci returns a PCI
// device, and host.cpus, host.nodes, host.processors and host.hugePages describe the topology. Inputs are frozen.
// Steps and the context limit each call, and a panic of the interpreter becomes an error. Starlark cannot limit
// memory, so custom types are evaluated in a child process (package evaluate).
//
// # Errors
//
// Errors have the type [*Error]. They contain the problem, the place with the source line and a caret, the calls
// that led there, and a suggestion if a name was misspelled.
//
// # Pinning
//
// [Type.Archive] stores the whole module graph as one readable text, and [LoadArchive] loads the type from it. A
// guest keeps its type this way, even when the library changes.
//
// See docs/decisions/0012-nodefaults.md.
package vmtypes
