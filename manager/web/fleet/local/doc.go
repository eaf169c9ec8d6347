// Package local is the VMs of this computer as a fleet: those that are configured in its
// folders, and those that run by other files (package runner/inventory). What a page changes
// is written into a VM's file, where its user would have changed it; the runner notices.
package local
