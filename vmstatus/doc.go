// Package vmstatus holds the words of a VM's status: the states of a run, the types
// of conditions, the reasons of both, and the causes of an end.
//
// They are an interface: the runner publishes them (package runner/status) and writes
// them to the VM's resource (package runner/status/k8s), the manager goes by them,
// and users and their programs compare them. So each stands here once, and never
// changes its spelling. The phases of a VM are the manager's alone (package api/v1).
package vmstatus
