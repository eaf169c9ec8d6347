// Package qemuopt contains a table of QEMU's options. For each option, it describes the effects on the host, the
// meaning of changes for a guest, and the references in its properties.
//
// The table contains an [Option] for each flag, or for each flag with a backend. Within it, there is a [Property] for
// each group of properties with the same meaning. For each kind of device there is a [Device]. Several packages read
// the table:
//
//   - plan checks that ids are unique, that references lead to an existing option, and that each device has a place
//   - vmtypes finds the drives, ports and the TPM of a machine
//   - vmtypes/policy denies everything that can touch the host or is unknown
//   - vmtypes/confinement computes what QEMU needs from the host for an option
//   - authoring/compare explains what a change means for a guest
//   - authoring/check replaces what cannot be tried on another computer
//   - authoring/lint names the rules after what an option creates
//   - runner/migrate/handover compares the hardware of a migrated machine
//
// To add a device for all these packages, add it to devices.go. Add properties that only this device has to the rows of
// -device. A test requires a row for everything that the stock types and the examples use. buses.go describes the buses
// of devices and machines; forms.go describes the form of values.
//
// # The host
//
// The column Host is a security boundary. [Unknown] is the zero value, and a policy denies texts of properties that are
// Unknown or have no row. If you enter another value, you assert that QEMU does no more than that with the text, in
// every device and backend of the row.
//
// [Bool] and [Parse] read switches and texts of options in the same way as QEMU. Use them in all code that judges an
// option.
//
// The package is independent of plans, and imports no other package of the project.
package qemuopt
