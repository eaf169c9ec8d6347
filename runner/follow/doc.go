// Package follow follows the configuration of a VM that runs: when the file changes, or
// the modules of the VM's type, both are read and evaluated, and the driver gets what
// came of it.
//
//	follow.go      reads the configuration when it changes, one reading at a time
//	typewatch.go   tells that modules of the VM's type have changed
//	evaluation.go  evaluates types for it: is it allowed, and what awaits a restart?
package follow
