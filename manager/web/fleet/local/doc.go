// Package local implements fleet.Fleet for the VMs of this computer: the VMs that are configured in its folders, and
// running VMs with other files (package runner/inventory). Changes from a page are written to the VM's file, as a user
// would do with an editor; the runner notices them.
package local
