// Package apply writes the objects of a VM to the cluster. Package objects describes these objects, and package
// decide decides about them; this package makes no decisions itself.
//
// A [Round] writes the objects during one reconciliation, with one method for each step.
//
//   - A method only writes objects that differ. An annotation contains the hash of the applied configuration. A
//     [Memory] records which version of an object was last written, so that changes by other clients are detected
//     without reading the object.
//   - Differences are applied with server-side apply.
//   - Objects that don't belong to the VM are left alone.
//
// A manager of another version, or with another configuration, can create different objects. Rewriting such objects
// is never urgent, so it is rate-limited (pace.go).
package apply
