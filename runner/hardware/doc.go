// Package hardware connects the names of devices in a guest, such as /dev/vdb, eth1 and 00:0f.0, with QEMU's devices,
// the lines of the plan that created them, and the fields of the configuration. It has no side effects: package runner
// asks QEMU and the guest agent.
//
// See docs/decisions/0201-names-in-the-guest.md.
package hardware
