// Package share prepares VM types for container registries, and manages types from registries in a folder. The
// artifacts themselves are in package artifact.
//
// [Gather] determines which files belong to a type, for "vmrunner vmtype push". [Write] writes the files of a type into
// a folder, for "pull". A [Lock] records the types that "vendor" has written into a folder, with their digests and
// checksums. [Lock.Replace] updates them without overwriting the user's changes, and [Lock.Differences] finds changed
// files.
//
// See docs/decisions/0151-types-in-registries.md.
package share
