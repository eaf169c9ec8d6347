// Package manager is the program that runs the VirtualMachines of one namespace: it reads
// its configuration, connects to the API server, and becomes the leader. Package manager/vm
// is its controller.
//
// # Configuration
//
// The file has VM-Operator's form: YAML with the section "/Manager" and those inside, see
// [Parse]. It is optional, strict, and read again whenever it changes; a new file with
// faults has no effect but on the log and a metric. The file logging.properties in the same
// directory has the levels of the log.
//
// # Scope
//
// A manager has one namespace: that of its pod, or the configured one. Several may be
// started for a namespace: one leads, by a Lease, and the others stand by.
//
// See docs/decisions/0039-no-purge.md.
package manager
