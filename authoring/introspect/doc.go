// Package introspect queries an installed QEMU for its options, devices, objects and backends, and for the properties
// of each.
//
// [Open] starts QEMU without a machine and queries it via QMP. It does not use documentation, which may describe
// another version or build. The answers are cached for the user until the program changes, so that QEMU is not even
// started the next time. A [QEMU] implements the interface of the same name in package lint, for "vmrunner vmtype lint"
// and the language server.
package introspect
