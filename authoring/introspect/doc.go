// Package introspect queries an installed QEMU for its options, devices, objects and backends, and for the properties
// of each.
//
// It starts QEMU without a machine and queries it via QMP. It does not use documentation, which may describe another
// version or build. The answers are cached for the user until the program changes, so that QEMU is not even started the
// next time.
package introspect
