// Package manager is the program that makes VirtualMachines of one namespace run: it
// reads its configuration, connects to the API server, becomes the leader among its
// like, and has package manager/vm do the work.
//
// # Configuration
//
// The file is the original's: YAML with the section "/Manager" and those inside, see
// [Parse]. It is optional, strict, and read again whenever it changes; a new file with
// faults changes nothing but the log and a metric. Beside it, logging.properties says
// what is logged.
//
// # Scope
//
// A manager has one namespace: that of its pod, or the configured one. Several may be
// started for a namespace: one leads, by a Lease, and the others stand by.
package manager
