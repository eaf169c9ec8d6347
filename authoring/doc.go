// Package authoring contains the packages for authors of VM types. They implement the commands "vmrunner vmtype …". The
// package itself contains no code. The following lists are in the order in which an author needs the packages.
//
// To create and edit a type:
//
//   - [vmop/authoring/scaffold] creates a VM type, with a test and a sample that pass.
//   - [vmop/authoring/adopt] proposes a change of a type, or a new type, from a command line of QEMU.
//   - [vmop/authoring/reference] describes everything that a type can use: builtins, the fields of
//     vm and host, the modules of the library. The manual, stubs, schemas and the language server
//     use it.
//   - [vmop/authoring/editors] configures editors for a folder of VM types.
//   - [vmop/authoring/lsp] is the language server that the editors start.
//   - [vmop/authoring/format] formats source; [vmop/authoring/lint] finds probable mistakes in
//     modules that can be loaded.
//
// To inspect the plans of a type:
//
//   - [vmop/authoring/sample] reads sample VMs, and the descriptions of the computers that they
//     would run on.
//   - [vmop/authoring/influence] finds the fields and facts that an argument depends on.
//   - [vmop/authoring/textdiff] compares two texts line by line.
//
// To test a type:
//
//   - [vmop/authoring/vmtypestest] runs tests and samples without starting a VM.
//   - [vmop/authoring/introspect] asks the installed QEMU which options and devices it has.
//   - [vmop/authoring/check] lets that QEMU build the machine of each sample.
//   - [vmop/authoring/revision] opens another version of a type, from git or from a VM's data;
//     [vmop/authoring/compare] explains what the difference between two plans means for a guest.
//
// [vmop/authoring/vmtype] implements the commands: it reads arguments, calls these packages and prints the results.
// cmd/vmtype is the program. For the command vmtype, vmrunner replaces itself with it. Apart from tests, no other code
// imports these packages, so running VMs and the manager do not contain them (ARCHITECTURE.md, Fences).
//
// Untrusted types are always evaluated in a process with limits (vmop/vmtypes/evaluate).
package authoring
