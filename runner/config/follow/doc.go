// Package follow follows the configuration of a running VM: when the file or a module of the VM's type changes,
// it reads and evaluates both, and passes the result to the driver.
//
//	follow.go      reads the configuration when it changes, one reading at a time
//	typewatch.go   reports changed modules of the VM's type
//	evaluation.go  evaluates types: is the configuration allowed, and which changes need a restart?
package follow
