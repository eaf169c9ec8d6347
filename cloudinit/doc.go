// Package cloudinit creates the data for the self-configuration of a guest at its first boot.
//
// Almost every cloud image contains cloud-init. It searches for a small file system with the label CIDATA and
// reads up to four files from its root directory. cloud-init's name for this data source is NoCloud
// (https://docs.cloud-init.io/en/latest/reference/datasources/nocloud.html):
//
//	meta-data       identity of the machine: instance-id, local-hostname; required
//	user-data       tasks: a cloud-config, a script, a MIME archive …; required
//	network-config  settings of the network, version 1 or 2; optional
//	vendor-data     additions of the provider to user-data; optional
//
// There are two steps from a configuration to a disk:
//
//   - A [Config] is the section cloudInit of the runner's configuration, in the user's YAML. [Config.Read] reads
//     the files that it names, for example the data of a Kubernetes Secret. [Config.Seed] converts it to a
//     [Seed], the exact bytes of the four files.
//   - Package cloudinit/disk writes the seed to a FAT image.
//
// Both steps are deterministic: the same configuration results in the same bytes, independent of the clock and
// the environment.
//
// # When the data is applied again
//
// cloud-init applies the data once per instance-id. Without an instance-id from the user, it is derived only from
// the VM's name and the four files. So changed data is applied at the next boot. A VM that only gets another CPU
// stays the same instance and keeps its SSH host keys.
//
// # Values stay as the user wrote them
//
// The YAML of the configuration is copied node by node, and never decoded. A quoted "on" or "1.10" stays a
// string, the guest's YAML reader interprets an unquoted on, 0644 stays octal, and keys keep their order.
// Anchors, aliases and merge keys are resolved, because they can refer to nodes outside the section. Comments are
// omitted, so that an edited comment leaves the instance unchanged.
//
// See docs/decisions/0004-go-diskfs.md.
package cloudinit
