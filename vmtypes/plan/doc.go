// Package plan is the launch plan of a virtual machine: everything that has to
// be done to start it, as a plain value.
//
// A VM type computes a Plan (package vmtypes); the runner carries it out. In
// between it can be printed, compared, checked and explained without starting
// anything, which is the point: Text is the form that goldens keep and people
// read, Argv what QEMU gets, Shell something to paste, JSON for programs.
//
// # Options
//
// An Option is one command line option of QEMU: a flag, a first value and
// properties. It stays structured until it is rendered, in exactly one place
// (Option.Words): there commas in values are doubled, as QEMU's option parser
// wants it, so a file name cannot smuggle in a property. Each option carries
// its Origin, the lines of Starlark that made it.
//
// # Descriptors
//
// Some things must be open before a process starts: a tap, a listening socket.
// The plan names them (Tap.Name, Listener.Name), an option's property refers to
// the name, and the number is only known when the process is started:
// Descriptors lists what a command needs in the order of the inherited file
// descriptors, and Words takes the numbers.
//
// # Check
//
// Check finds what QEMU would refuse late or not at all: duplicate ids,
// references to nothing, options that are the runner's own business. It reports
// all faults at once, each with its origin.
package plan
