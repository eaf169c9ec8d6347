// Package inventory manages the VMs of this computer by name. It includes the VMs that are configured in one of
// two folders, stopped or running, and running VMs with a configuration from elsewhere. It lists them, reports
// changes, and starts, stops, creates, edits and deletes them. The command line uses it, and other interfaces
// can: the package never asks the user or prints.
//
//	inventory.go   the folders, and what is known of one VM
//	list.go        configurations joined with running runners, and looking a VM up
//	watch.go       reports changes
//	start.go       start, stop, restart
//	detached.go    a runner that outlives its terminal
//	service.go     a runner as a service of systemd; autostart
//	draft.go       the text of a new configuration, from a few fields
//	disks.go       the disks of a VM: create, import, resize, export
//	media.go       uploaded files, for several VMs
//	upload.go      receives a file in pieces
//	create.go      a new configuration; deletion
//	edit.go        checks a configuration before it is saved, and computes what it changes
//
// # The folders
//
// The user's VMs are configured in ~/.config/vmrunner, the computer's VMs in /etc/opt/vmrunner. A VM's
// configuration is NAME.yaml or, if it comes with other files, NAME/config.yaml. The computer's VMs have their
// data in /var/lib/vmrunner and their sockets in /run/vmrunner regardless of who starts them, so a VM is the same
// with and without systemd.
//
// # State
//
// The package keeps no state that would be lost if the program is killed. The folders contain the configurations.
// Runtime directories (package runner/config) show which VMs are running, and the runners (package
// runner/control) report their status. Several goroutines may use an [Inventory], and several inventories may
// exist at the same time.
package inventory
