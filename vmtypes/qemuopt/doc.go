// Package qemuopt is the one table of what is known about QEMU's options: what
// they can do on the host, what a change of them means for a guest, and what
// their properties refer to.
//
// It has a row for each flag, or flag and backend ([Option]), within which a row
// for properties that have the same meaning ([Property]), and one for each kind of
// device ([Device]). Several packages read the table, each for a purpose of its own:
//
//   - plan checks that ids are unique and that what an option refers to exists;
//   - vmtypes finds the drives, ports and the TPM of a machine;
//   - vmtypes/policy denies what can touch the host, and all that is not known;
//   - vmtypes/confinement says what QEMU needs of the host for an option;
//   - authoring/compare says what a change means for a guest;
//   - authoring/check replaces what cannot be tried on another computer;
//   - authoring/lint names the rules by what an option makes.
//
// To add a device for all of them, put it into devices.go, and properties that no
// other device has to the rows of -device. A test requires a row for everything
// that the stock types and the examples use.
//
// # The host
//
// The column Host is a security boundary: [Unknown] is the zero value, and a
// policy denies texts of properties that are Unknown or have no row. Whoever
// changes it to another value asserts that QEMU does no more than that with the
// text, in every device and backend that the row is for.
//
// [Bool] and [Parse] read switches and texts of options as QEMU does. Whoever judges
// an option uses them.
//
// The package knows nothing of plans: it imports nothing of the project.
package qemuopt
