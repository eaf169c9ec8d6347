// Package record stores what the next runner needs if this runner is killed, and recreates the VM from it. A
// machine without a record never ran.
//
// The link named runtime in the data directory exists while a guest is running. It leads to the runtime
// directory, which contains:
//
//	machine.json   the processes, and all inputs of the plan
//	vmtype.txtar   the archive of the VM type
//	runner.json    the runner's progress: the last reset, a stop request …
//	config.yaml    the active configuration, if it differs from the first
//
// In addition, ended.json in the data directory (end.go) contains how the VM has ended.
//
// See docs/decisions/0025-adoption.md.
package record
