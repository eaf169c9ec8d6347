// Package revision finds versions of VM types, and computes what they make of
// VMs: those of a folder or a file, of a git revision, of the archive in a VM's
// data directory, and the stock types of the program.
package revision
