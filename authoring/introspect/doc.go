// Package introspect asks a QEMU that is installed what it knows: its options,
// devices, objects, backends, and what can be set of each.
//
// QEMU is started without a machine, and asked by QMP; nothing is looked up in
// documents, which are of another version or build. What it has said is kept in
// the user's cache, until the program changes, so that it is not even started
// the next time.
package introspect
