// Package policy is an administrator's allow-list for launch plans. For the VM types of certain folders, it restricts
// QEMU's command line, and the files, programs, sockets and networks of the host that a plan may use.
//
// [Read] reads a policy, and [Policy.Check] judges a plan. Apart from reading the file, both are pure.
// docs/vm-types/restrict.md is the documentation for administrators.
//
// # What a plan can do
//
// The table of package qemuopt describes the effects of options on the host: which properties name files to read or
// write, sockets, and addresses to listen on. This package reads options in the same way as QEMU (qemuopt.Bool,
// qemuopt.Parse, plan.Option.Endpoint). Tests compare this with the behavior of a real QEMU.
//
// The rule for the type's folder must allow every effect of a plan. The package denies unknown flags, backends and
// helper arguments, and texts as the values of unknown properties. Numbers and switches are harmless, unless they stand
// for a descriptor. An administrator can allow single options with a pattern, and is responsible for their effects.
//
// # What it cannot see
//
// The policy judges the names of files, not their targets: a symbolic link in an allowed folder can lead anywhere, and
// a qcow2 image can name another image as its base. Give only trusted users write access to the folders in a policy, or
// store only raw images in these folders.
//
// See docs/decisions/0029-policy.md and docs/decisions/0172-qemus-own-reading.md.
package policy
