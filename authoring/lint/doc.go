// Package lint finds mistakes in the source of VM types that can be loaded.
//
// [File] checks one module and reads only its arguments, so an editor can call it at each keystroke. [Plans] checks the
// plans of sample VMs, which include computed names. Its findings are at the lines that created the options. Both can
// query the installed [QEMU].
//
// Rules for Starlark in general have the names and the meaning of buildifier's rules (Bazel), but not its code
// (docs/decisions/0031-no-linter-of-bazel.md). A test compares them with the real buildifier.
package lint
