// Package lint finds what is wrong, or will be, with the source of VM types
// although it can be loaded.
//
// [File] looks at one module and reads nothing else than what it is given, so an
// editor can call it at each key. [Plans] looks at what types make of sample VMs,
// and knows computed names, too; its findings are at the lines that made the
// options. Both ask a [Machine], the QEMU that is installed, what it knows.
//
// The rules that other Starlark has as well have the names and the meaning that
// they have in Bazel's buildifier, but not its code: that would bring
// protobuf and Bazel's tables into a program that stays resident beside every VM
// (docs/decisions/0031). A test holds them to the real buildifier.
package lint
