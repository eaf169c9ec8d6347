// Package vmspec holds the vm section: the high-level description of one
// virtual machine that users write and VM types read.
//
// The types mirror the YAML of the "vm" section of a runner's configuration
// file, key by key; the yaml tags are the only spelling of a field, from the
// file through Starlark (vm.<key>) to the messages of Check. The package does
// no I/O and knows nothing of QEMU's options: translating a Spec into a
// command line is the business of a VM type (package vmtypes).
//
// A Spec takes three steps. The configuration reader fills one, strictly
// (package runner/config). WithDefaults returns a copy in which everything
// that has a default is set, including what derives from the VM's uuid.
// Check then reports every fault, each with the path of its field, so that the
// reader of the file can name line and column.
package vmspec
