// Package inventory knows the VMs of this computer, by name: those that are configured in
// one of two folders, whether they run or not, and those that run by a configuration from
// elsewhere. It lists them, tells when something about them changes, and starts, stops,
// makes, edits and deletes them. The command line uses it, and so can any other interface:
// nothing in it asks or prints.
//
//	inventory.go   the folders, and what is known of one VM
//	list.go        configurations joined with running runners, and looking a VM up
//	watch.go       tells of changes
//	start.go       start, stop, restart
//	detached.go    a runner that outlives its terminal
//	service.go     a runner as a service of systemd; autostart
//	draft.go       the text of a new configuration, from a few fields
//	disks.go       the disks of a VM: made, imported, resized, exported
//	create.go      a new configuration; what is deleted
//	edit.go        checks a configuration before it is saved, and tells what it changes
//
// # The folders
//
// The user's VMs are configured in ~/.config/vmrunner, the computer's in
// /etc/opt/vmrunner, each by NAME.yaml or, with files beside it, by NAME/config.yaml. The
// computer's VMs have their data in /var/lib/vmrunner and their sockets in /run/vmrunner,
// whoever starts them, so that it is the same VM with systemd and without.
//
// # State
//
// Nothing is kept that a killed program would miss: what is configured is in the folders,
// what runs is seen by runtime directories (package runner/config) and told by the runners
// (package runner/control). An [Inventory] may be used by several goroutines, and there
// may be several at a time.
package inventory
