// Package vmspec contains the vm section: the high-level description of a virtual machine that users write and VM
// types read.
//
// The types mirror the YAML of the "vm" section in a runner's configuration file, key by key. The yaml tags are
// the only spelling of a field, from the file through Starlark (vm.<key>) to the messages of Check. The package
// does no I/O. It is independent of QEMU's options: a VM type translates a Spec into a command line (package
// vmtypes).
//
// A Spec is processed in three steps:
//
//   - The configuration reader fills it, strictly (package runner/config).
//   - WithDefaults returns a copy with all defaults set, including the fields that derive from the VM's uuid.
//   - Check reports every error with the path of its field, so that the file's reader can add line and column.
package vmspec
