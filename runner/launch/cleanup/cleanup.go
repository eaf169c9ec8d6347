// Package cleanup ends and removes what a run has created on the host, in reverse order (cleanup.go), and what an
// earlier run has left there (leftovers.go). If the machine keeps running without its runner, cleanup leaves the
// machine's parts alone.
package cleanup

import (
	"errors"
	"log/slog"
	"slices"
)

// List contains the undo steps, in the order of the work.
type List struct {
	steps []step
	log   *slog.Logger
}

// New returns an empty list. Failed undo steps are logged to log.
func New(log *slog.Logger) *List { return &List{log: log} }

type step struct {
	what string
	undo func() error
	// machine reports whether the step ends or removes a part of the machine, which may keep running without its
	// runner.
	machine bool
}

// Add adds a step that undoes something the runner did for itself.
func (l *List) Add(what string, undo func() error) {
	l.steps = append(l.steps, step{what, undo, false})
}

// AddMachine adds a step that undoes something the runner did for the machine.
func (l *List) AddMachine(what string, undo func() error) {
	l.steps = append(l.steps, step{what, undo, true})
}

// SpareMachine removes the steps that undo the machine.
func (l *List) SpareMachine() {
	l.steps = slices.DeleteFunc(l.steps, func(s step) bool { return s.machine })
}

// Run executes all steps in reverse order. It continues after errors, and logs and returns them.
func (l *List) Run() error {
	var errs []error
	for _, s := range slices.Backward(l.steps) {
		if err := s.undo(); err != nil {
			l.log.Warn("cleaning up", "what", s.what, "err", err)
			errs = append(errs, err)
		}
	}
	l.steps = nil
	return errors.Join(errs...)
}
