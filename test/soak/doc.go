// Package soak lets a real VM live for a while and compares it with a model.
//
//	make soak SOAKTIME=20m SEED=7
//
// The test takes a random walk: it edits the configuration, pauses, resets,
// stops and starts the machine, kills what runs beside it, and comes and goes as
// a viewer (actions_test.go). A small model (model_test.go) says what must be
// true after each step, and the status of the control interface, QEMU and the
// guest itself must come to agree with it. Over the life of a runner its
// descriptors, goroutines and memory must not grow (life_test.go).
//
// The seed is printed; the same seed takes the same steps.
package soak
