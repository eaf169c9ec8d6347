// Package policy is an administrator's allow-list for launch plans: what VM types
// of certain folders may have on QEMU's command line, and which files, programs,
// sockets and networks of the host a plan may use.
//
// [Read] reads a policy, [Policy.Check] judges a plan. Both are pure but for the
// reading of the file. docs/vm-types/restrict.md is for administrators.
//
// # What a plan can do
//
// The package knows what the options that it understands can do on the host
// (meaning.go): which properties name files to read or write, sockets, addresses to
// listen on. It reads them as QEMU does (qemuopt.Bool, qemuopt.Parse,
// plan.Option.Endpoint), and tests compare that with what a real QEMU does. Whatever
// a plan can do must be allowed by the rule for the type's folder. What the package
// doesn't understand is denied: an unknown flag, backend or helper argument, and a
// text as the value of an unknown property. A number or a switch is no danger,
// unless it stands for a descriptor. An administrator can allow single options by a
// pattern, and answers for it.
//
// # What it cannot see
//
// Names of files are judged, not what they lead to: a symbolic link in an allowed
// folder leads anywhere, and a qcow2 image can name another as its base. So the
// folders in a policy must be writable by trusted users only, or hold raw images.
//
// See docs/decisions/0029-policy.md and docs/decisions/0172-qemus-own-reading.md.
package policy
