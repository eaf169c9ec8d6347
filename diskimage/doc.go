// Package diskimage imports disk images. The source is a URL, a container image, a file or an upload. The target is
// a file or a block device, which afterwards contains the raw bytes of the disk.
//
//	i := diskimage.Import{
//		Source: diskimage.HTTP{URL: "https://example.org/debian.qcow2"},
//		Target: diskimage.Target{Path: "/srv/vm/disk.img", Size: 20 << 30},
//	}
//	result, err := i.Run(ctx)
//
// The bytes pass through a chain of readers. The first reader and the writer each have a goroutine:
//
//	Source ─▶ ahead ─▶ transfer: count, hash, limit ─▶ decompress ─▶ Probe
//	                                                                   │ raw, iso
//	                                                                   ├─▶ writer: holes stay holes ─▶ output
//	                                                                   │ qcow2, vmdk, vhdx, vdi, vpc
//	                                                                   └─▶ scratch file ─▶ qemu-img ─▶ output
//
// An image is hostile until it is raw. Probe reads the header before qemu-img sees the image, and refuses formats
// that can name other files. qemu-img runs under limits and can open only the image and the output
// (docs/decisions/0104-hostile-images.md).
//
// An import is complete or leaves no trace: a file gets its name only after it is synced, and after a failed import
// the first MiB of a device is zeroed. A broken transfer is resumed, or the import starts again, for a limited
// number of times (docs/decisions/0105-whole-imports.md). Errors have a Reason and a text for the user.
//
// Export copies a user's disk to an image. Transmit sends a cluster's disk, and an Arrival receives it.
package diskimage
