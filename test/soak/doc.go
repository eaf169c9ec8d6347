// Package soak runs a real VM for a long time and compares it with a model.
//
//	make soak SOAKTIME=20m SEED=7
//
// The test takes a random walk: it edits the configuration, pauses, resets, stops and starts the machine, kills
// processes next to QEMU, and connects and disconnects viewers (actions_test.go). A small model (model_test.go)
// predicts the state after each step. The status of the control interface, QEMU and the guest must reach this state.
// While a runner lives, the number of its descriptors and goroutines and its memory must not grow (life_test.go).
//
// The test prints the seed. The same seed takes the same steps.
package soak
