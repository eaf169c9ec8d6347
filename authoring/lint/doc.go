// Package lint finds mistakes in the source of VM types that can be loaded.
//
// [File] checks one module and reads nothing but its arguments, so an editor can call it at
// each keystroke. [Plans] checks the plans of sample VMs, which include computed names; its
// findings are at the lines that made the options. Both query the installed [QEMU].
//
// Rules for Starlark in general have the names and the meaning of those of Bazel's
// buildifier, but not its code (docs/decisions/0031-no-linter-of-bazel.md). A test compares
// them with the real buildifier.
package lint
