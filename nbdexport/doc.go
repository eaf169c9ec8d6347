// Package nbdexport serves a disk, a file or a block device with raw bytes, over the network: by
// qemu-storage-daemon(1) with mutual TLS, to the QEMU of one VM. It also makes the certificates of both sides.
//
//	e := nbdexport.Export{Disk: "/disk/disk.img", Name: "disk", TLS: "/tls", Port: nbdexport.Port}
//	err := e.Run(ctx, logger) // until ctx ends
//
// An export that writes has a lock of the disk, which the kernel keeps as long as the server or its
// parent lives: a second one of the same disk waits. The server may open the disk, its
// certificates and programs, and nothing else. When it ends it is started again; QEMU's requests
// wait for that as long as the drive's reconnect-delay says.
//
// See docs/decisions/0108-nbd-exports.md.
package nbdexport

// Port is that of NBD (IANA).
const Port = 10809
