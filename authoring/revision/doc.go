// Package revision opens versions of VM types and computes their plans. A version is a folder or a file, a git
// revision, the archive in a VM's data directory, or a stock type.
//
// [Open] opens a version as a [Revision]. [Compare] computes the plans of samples in two versions, and determines what
// the changes mean for guests (package compare). "vmrunner vmtype diff" and "lint" use the package.
package revision
