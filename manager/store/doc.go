// Package store holds the manager's view of the VMs in its namespace: each VM without the fields that only the
// API server needs, the part of its pod that describes the pod's state, and the metadata of all other objects.
// Watches fill the store, so a reconciliation reads nothing from the API server.
//
// The caches of the client libraries hold Go structs: 11 KiB for each VM, 25 KiB resident. With 5000 VMs this is
// more than the rest of the manager needs. This package trims each object (trim.go), encodes it (encoding.go),
// and compresses it with a dictionary of strings that most objects contain (compress.go). It decodes the object
// when its VM is reconciled, a few times in its life, or shown on a page. That takes 2.6 KiB for each VM, and 0.1
// ms for each reconciliation (docs/decisions/0043-packed-mirror.md).
//
// client-go handles the difficult part of caching: a Reflector lists, watches, and lists again after a lost
// watch. Its store is a collection (collection.go), one for each kind. A collection compares new objects with the
// stored objects, and enqueues the VM (queue.go) if a reconciliation could see a difference.
package store
