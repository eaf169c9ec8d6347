// Package cloudinit makes the disk from which a guest configures itself at its first boot.
//
// cloud-init, which almost every cloud image carries, looks for a small file system labelled CIDATA and reads up to
// four files from its root. It calls this source of data NoCloud
// (https://docs.cloud-init.io/en/latest/reference/datasources/nocloud.html):
//
//	meta-data       who the machine is: instance-id, local-hostname; must be there
//	user-data       what to do: a cloud-config, a script, a MIME archive …; must be there
//	network-config  how to set up the network, version 1 or 2; may be absent
//	vendor-data     what the provider adds to user-data; may be absent
//
// The way from a configuration to a disk has two steps. A [Config] is the section cloudInit of the runner's
// configuration, kept as the YAML that the user wrote; [Config.Read] reads the files that it names, which is how a
// Secret of Kubernetes gets here. [Config.Seed] turns it into a [Seed], the exact bytes of the
// four files. A seed then becomes a FAT image (package cloudinit/disk). Both steps are deterministic: the same
// configuration makes the same bytes, whatever the clock and the environment say.
//
// # When the guest begins anew
//
// cloud-init applies the data once per instance-id. A user who names none gets one derived from the VM's name and the
// four files, and from nothing else: changed data is applied at the next boot, while a VM that merely gets another
// CPU stays the instance it was, with its SSH host keys.
//
// # Values are what the user wrote
//
// The YAML of the configuration is copied node by node, never decoded: a quoted "on" or "1.10" stays a string, a
// plain on stays whatever the guest's YAML takes it for, 0644 stays octal, and keys keep their order. What refers to
// something outside of the section is resolved: anchors, aliases and merge keys. Comments are left out, so that an
// edited comment doesn't make a new instance.
//
// See docs/decisions/0004-go-diskfs.md.
package cloudinit
