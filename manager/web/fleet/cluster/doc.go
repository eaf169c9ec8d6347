// Package cluster implements fleet.Fleet for the VMs in a Kubernetes namespace.
//
//	vms := cluster.New(cluster.Options{Namespace: "vms", Store: store, Client: client, Keys: keys, …})
//	server, err := web.New(web.Options{Fleet: vms, …})
//
// Pages show data from the manager's store (package store), which every manager fills, leading or standby. So pages
// cause no requests and no watches. VMs are decoded when a page asks for them, cached while pages are open (fleet.go),
// and only decoded again after a change. Storage classes are read when the form for a new VM is opened (classes.go).
//
// Changes from a page are written to the definition of the VM (act.go), where the controller finds them. If the
// definition has no field for a change, the runner gets a request with the name of the user, through package stream
// (runner.go). Every action creates an event on the VM.
//
// Package access decides who may do what; Rights returns its input.
package cluster
