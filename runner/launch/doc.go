// Package launch executes a plan until QEMU runs, paused:
//
//	directory.go   takes the runtime directory
//	files.go       creates the guest's copies of files
//	network.go     opens taps
//	start.go       starts the helpers and QEMU, which inherit what was opened
//	arrival.go     the TPM of a guest that comes from another runner
//	again.go       restarts a helper that has ended while the guest runs
//	starterror.go  names the option at fault if QEMU exits instead
//
// Each step is recorded in a cleanup.List. QEMU and the helpers run in their own sessions, so that a signal to
// the runner asks the guest to shut down and does not reach them.
package launch
