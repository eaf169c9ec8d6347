// Package cleanup ends and removes what a run has brought onto the host, the last
// first (cleanup.go), and what an earlier run has left there (leftovers.go). What is
// undone of the machine is left alone where the machine keeps running without its runner.
package cleanup

import (
	"errors"
	"log/slog"
	"slices"
)

// List is what has to be undone, in the order in which it was done.
type List struct {
	steps []step
	log   *slog.Logger
}

// New returns an empty list; what can't be undone is logged.
func New(log *slog.Logger) *List { return &List{log: log} }

type step struct {
	what string
	undo func() error
	// machine says that the step ends or removes a part of the machine, which
	// may go on without its runner.
	machine bool
}

// Add notes how to undo what was just done for the runner itself.
func (l *List) Add(what string, undo func() error) {
	l.steps = append(l.steps, step{what, undo, false})
}

// AddMachine notes how to undo what was just done for the machine.
func (l *List) AddMachine(what string, undo func() error) {
	l.steps = append(l.steps, step{what, undo, true})
}

// SpareMachine forgets how to undo the machine.
func (l *List) SpareMachine() {
	l.steps = slices.DeleteFunc(l.steps, func(s step) bool { return s.machine })
}

// Run undoes everything, the last first. What cannot be undone is logged and
// returned; the rest is undone all the same.
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
