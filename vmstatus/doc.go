// Package vmstatus contains the vocabulary of a VM's status: the states of a run, the types of conditions, the
// reasons for both, and the causes of an end.
//
// These names are an interface. The runner publishes them (package runner/status) and writes them to the VM's
// resource (package runner/status/k8s). The manager relies on them, and users and their programs compare them. So
// each name is defined only here, and its spelling never changes. The package also contains structs that all
// three share, with their JSON. The phases of a VM belong to the manager (package api/v1).
package vmstatus
