// Package images creates disks from images: from a URL, a file, or a name in a list of well-known images. Remote
// images are fetched once, into a cache that the VMs of a user share.
//
//	list.go        names of images: a list that is part of the program, and the lists of the host
//	publisher.go   where an image is now, and its checksum, according to its publisher
//	cache.go       fetched images: one copy of each for all users, even after an interruption
//	lock.go        if several processes need one image, one of them fetches it
//	make.go        a disk from an image
//
// Package diskimage fetches, converts and checks images. A disk is a copy, so an image can be removed from the
// cache at any time.
//
// See docs/decisions/0106-disks-of-images.md.
package images
