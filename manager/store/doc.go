// Package store holds what the manager knows of the VMs in its namespace: each VM
// without what only the API server needs, the part of its pod that says how the pod is,
// and the metadata of everything else. It is filled by watches, so a reconciliation
// reads nothing from the API server.
//
// The caches of the client libraries hold Go structs: 11 KiB for each VM, 25 resident,
// which with 5000 VMs is more than all else in the manager. Here an object is
// trimmed (trim.go), encoded (encoding.go), compressed with a dictionary of what most
// objects contain (compress.go), and decoded when its VM is reconciled, a few times in
// its life, or shown on a page. That is 2.6 KiB for each VM, at 0.1 ms for each
// reconciliation (docs/decisions/0043-packed-mirror.md).
//
// What is difficult about caches is client-go's: a Reflector lists, watches, and lists
// again what a lost watch may have missed. Its store is a collection (collection.go), one
// for each kind, which compares what arrives with what it has, and enqueues the VM
// (queue.go) if there is a difference that a reconciliation could see.
package store
