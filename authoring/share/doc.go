// Package share has what goes into an artifact of a VM type, and what becomes of artifacts in a
// folder: which files belong to a type, and the lock file of types that were taken from registries.
//
// See docs/decisions/0151-types-in-registries.md.
package share
