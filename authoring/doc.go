// Package authoring is the room of those who write VM types; it has no code of its own.
// Below it are the packages behind "vmrunner vmtype …", here in the order in which an
// author meets them.
//
// To begin and to write:
//
//   - [vmop/authoring/scaffold] begins a VM type, with a test and a sample that pass.
//   - [vmop/authoring/reference] knows all that a type can use: builtins, the fields of vm
//     and host, the modules of the library. The manual, stubs, schemas and the language
//     server read it.
//   - [vmop/authoring/editors] sets up editors for a folder of VM types.
//   - [vmop/authoring/lsp] is the language server that they start.
//   - [vmop/authoring/format] formats source; [vmop/authoring/lint] finds probable mistakes
//     in what can be loaded.
//
// To inspect what a type makes:
//
//   - [vmop/authoring/sample] reads the VMs that types are tried with, and the descriptions
//     of the computers that they would run on.
//   - [vmop/authoring/influence] finds the fields and facts that an argument depends on.
//   - [vmop/authoring/textdiff] shows two texts line by line.
//
// To test it:
//
//   - [vmop/authoring/vmtypestest] runs tests and samples; nothing is started.
//   - [vmop/authoring/introspect] asks the installed QEMU which options and devices it has.
//   - [vmop/authoring/check] has that QEMU build the machine of each sample.
//   - [vmop/authoring/revision] finds another version of a type, in git or in a VM's data;
//     [vmop/authoring/compare] says what the difference between two plans means for a guest.
//
// [vmop/authoring/vmtype] has the verbs: it reads arguments, calls these packages and
// prints. cmd/vmtype is their program; vmrunner replaces itself by it when the verb is
// vmtype. Nothing outside imports this room, so neither a running VM nor the manager pays
// for it (ARCHITECTURE.md, Fences).
//
// What a stranger wrote is always evaluated in a process with limits (vmop/vmtypes/evaluate).
package authoring
