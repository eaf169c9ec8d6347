// Package plan contains the launch plan of a virtual machine. A plan is a plain value with everything that is needed to
// start the machine.
//
// A VM type computes a Plan (package vmtypes), and the runner carries it out. Before that, the plan can be printed,
// compared, checked and explained without starting anything. There are several forms of a plan:
//
//   - Text is for people, and for golden files
//   - Argv contains QEMU's arguments
//   - Shell is a text to paste into a shell
//   - JSON is for programs
//
// # Options
//
// An Option is one command line option of QEMU: a flag, a first value and properties. It stays structured until
// Option.Words renders it. Only Option.Words doubles the commas in values, as QEMU's option parser requires, so that a
// file name cannot inject a property. Each option contains its Origin, the lines of Starlark that created it.
//
// # Descriptors
//
// Some things must be open before a process starts: a tap, a listening socket. The plan names them (Tap.Name,
// Listener.Name), and an option's property refers to the name. The number is only known when the process starts.
// Descriptors lists the descriptors that a command needs, in their order in the process. Words receives the numbers.
//
// # Check
//
// Check finds errors that QEMU would report late or not at all: duplicate ids, references to missing objects, options
// that only the runner may set. It returns all errors together, each with its origin.
package plan
