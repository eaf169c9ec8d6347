// Package fleet defines the VMs that pages show, in a namespace of a cluster (package fleet/cluster) or on this
// computer (package fleet/local). The pages, the JSON interface and the consoles use only the interface Fleet.
//
// A VM is an immutable value: it is replaced, never modified. So a page can be rendered from a list of VMs without a
// lock. A Table stores the VMs. Watches of an API server or event streams of runners put new values into it. A reader
// waits on the channel of Changed, gets the list again, and compares it with what it has shown.
//
// This package makes no access decisions: package access does, for the pages.
package fleet
