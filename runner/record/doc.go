// Package record keeps what a runner leaves to the next one, if it is killed, and makes
// the VM anew from it. A machine without a record never ran.
//
// The link named runtime in the data directory exists while a guest runs, and leads to
// the runtime directory, in which are:
//
//	machine.json   the processes, and all that the plan was made of; never changed
//	vmtype.txtar   the archive of the VM type
//	runner.json    how far the runner has come: the last reset, a stop request …
//	config.yaml    the configuration in force, if it is another than the first
//
// And ended.json in the data directory (end.go) says how the VM has ended.
//
// See docs/decisions/0025-adoption.md.
package record
