// Package cluster is the VMs of a namespace of Kubernetes as a fleet.
//
//	vms := cluster.New(cluster.Options{Namespace: "vms", Store: store, Client: client, Keys: keys, …})
//	server, err := web.New(web.Options{Fleet: vms, …})
//
// What a page shows comes from the manager's store (package store), which every manager fills,
// whether it leads or stands by: no request, and no watch of its own. VMs are decoded when a
// page asks for them, kept as long as pages do (fleet.go), and only those decoded again that
// have changed. Storage classes are read when the form of a new VM is opened (classes.go).
//
// What a page changes is written into the definition of the VM (act.go), where the
// controller finds it; what the definition has no field for is requested of the
// runner, by package stream (runner.go), with the name of the user. Every action leaves an event
// on the VM.
//
// Package access decides who may do what; Rights returns what that depends on.
package cluster
