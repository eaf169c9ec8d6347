// Package share determines which files belong to the artifact of a VM type, and manages types from registries in a
// folder, with their lock file.
//
// See docs/decisions/0151-types-in-registries.md.
package share
