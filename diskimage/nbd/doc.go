// Package nbd serves a disk, a file or a block device with raw bytes, over the network to the QEMU of one VM. It
// runs qemu-storage-daemon(1) with mutual TLS, and creates the certificates of both sides.
//
//	e := nbd.Export{Disk: "/disk/disk.img", Name: "disk", TLS: "/tls", Port: nbd.Port}
//	err := e.Run(ctx, logger) // until ctx ends
//
// A writable export locks the disk. The kernel keeps the lock while the server or its parent lives, and a second
// export of the same disk waits for it.
//
// The server can open only the disk, its certificates and programs. If it ends, it is started again. QEMU's requests
// wait for the new server as long as the drive's reconnect-delay allows.
//
// See docs/decisions/0108-nbd-exports.md.
package nbd

// Port is the NBD port (IANA).
const Port = 10809
