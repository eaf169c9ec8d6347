// Package apply writes the objects of a VM: it makes the cluster hold what package
// objects describes and package decide has decided. It decides nothing itself.
//
// A [Round] is the writing of one reconciliation, one method for each step. A method
// writes nothing where nothing differs: the hash of what was applied is in an annotation,
// and a [Memory] knows which version of an object was last written, which is how a change
// by another client is noticed without reading the object. What differs is applied
// server-side. Objects that aren't the VM's are left alone.
//
// Objects that a manager of another version, or with another configuration, would make
// differently are rewritten at a limited rate (pace.go): that is never urgent.
package apply
