// Package launch carries a plan out, up to the point where QEMU runs, paused:
//
//	directory.go   takes the runtime directory
//	files.go       makes the guest's copies of files
//	network.go     opens taps
//	start.go       starts the helpers and QEMU, which inherit what was opened
//	arrival.go     the TPM of a guest that comes from another runner
//	again.go       starts a helper again that has ended while the guest runs
//	starterror.go  says which option it was, if QEMU ends instead
//
// Whatever it does is noted in a cleanup.List. QEMU and the helpers run in sessions of
// their own: a signal to the runner asks the guest to shut down, and does not reach
// them.
package launch
