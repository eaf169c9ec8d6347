// Package revision opens versions of VM types and computes their plans. A version is a folder or a file, a git
// revision, the archive in a VM's data directory, or a stock type.
package revision
