// Package fleet is the VMs that a page can show and act on, wherever they are: in a
// namespace of a cluster, or on this computer (package fleet/local). Pages, the JSON
// interface and the consoles know only the interface Fleet.
//
// A VM here is a value that is never changed, only replaced, so a page can be made from
// a list of them without a lock. A Table keeps them: what follows the VMs (watches of an
// API server, event streams of runners) puts the new value in, and whoever shows them
// waits on the channel of Changed, takes the list again, and compares what it shows with
// what it has shown.
//
// Nothing here decides who may do what: package access does, for the pages.
package fleet
