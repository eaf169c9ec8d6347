// Package images makes disks of images: of a URL, a file, or a name of a list of well-known
// images. What comes from elsewhere is fetched once, into a cache that the VMs of a user share.
//
//	list.go        names of images: a list that comes with the program, and those of the host
//	publisher.go   where an image is now, and its checksum, as its publisher says
//	cache.go       images that were fetched: one of each, whoever wants it, and however it ends
//	lock.go        of several that want one image, one fetches it
//	make.go        a disk of an image
//
// Fetching, converting and checking is done by package diskimage. A disk is a copy, so an image
// can be removed from the cache at any time.
//
// See docs/decisions/0106-disks-of-images.md.
package images
