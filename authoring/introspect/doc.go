// Package introspect queries an installed QEMU for its options, devices, objects and
// backends, and the properties of each.
//
// QEMU is started without a machine and queried with QMP; documentation is not used, because
// it belongs to another version or build. The answers are cached for the user until the
// program changes, so that QEMU is not even started the next time.
package introspect
