// Package diskimage imports images of disks: from a URL, a container image, a file or an
// upload, into a file or a block device that has the raw bytes of the disk.
//
//	i := diskimage.Import{
//		Source: diskimage.HTTP{URL: "https://example.org/debian.qcow2"},
//		Target: diskimage.Target{Path: "/srv/vm/disk.img", Size: 20 << 30},
//	}
//	result, err := i.Run(ctx)
//
// What is transferred passes a chain of readers, of which the first and the writer have a goroutine of their own:
//
//	Source ─▶ ahead ─▶ transfer: count, hash, limit ─▶ decompress ─▶ Probe
//	                                                                   │ raw, iso
//	                                                                   ├─▶ writer: holes stay holes ─▶ output
//	                                                                   │ qcow2, vmdk, vhdx, vdi, vpc
//	                                                                   └─▶ scratch file ─▶ qemu-img ─▶ output
//
// An image is hostile until it is raw. Headers are read by Probe, which refuses what can name
// other files, before qemu-img sees the image; and qemu-img runs under limits, and can open
// nothing but image and output (docs/decisions/0104-hostile-images.md).
//
// An import is whole, or there is nothing of it: a file gets its name when it is synced, and
// a device on which an import failed loses its first MiB. A transfer that breaks is resumed, or
// the import begins again, for a limited number of times
// (docs/decisions/0105-whole-imports.md). Errors have a Reason, and a text for the user. Export copies a
// disk of the user to an image; Transmit sends a disk of a cluster, and an Arrival takes it.
package diskimage
