// Package revision opens versions of VM types and computes their plans: versions are a
// folder or a file, a git revision, the archive in a VM's data directory, and the stock
// types.
package revision
