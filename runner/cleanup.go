package runner

import (
	"errors"
	"log/slog"
	"slices"
)

// cleanup is what has to be undone, in the order in which it was done.
type cleanup struct {
	steps []cleanupStep
	log   *slog.Logger
}

type cleanupStep struct {
	what string
	undo func() error
	// machine says that the step ends or removes a part of the machine, which
	// may go on without its runner.
	machine bool
}

// add notes how to undo what was just done for the runner itself.
func (c *cleanup) add(what string, undo func() error) {
	c.steps = append(c.steps, cleanupStep{what, undo, false})
}

// addMachine notes how to undo what was just done for the machine.
func (c *cleanup) addMachine(what string, undo func() error) {
	c.steps = append(c.steps, cleanupStep{what, undo, true})
}

// spareMachine forgets how to undo the machine.
func (c *cleanup) spareMachine() {
	c.steps = slices.DeleteFunc(c.steps, func(s cleanupStep) bool { return s.machine })
}

// run undoes everything, the last first. What cannot be undone is logged and
// returned; the rest is undone all the same.
func (c *cleanup) run() error {
	var errs []error
	for _, step := range slices.Backward(c.steps) {
		if err := step.undo(); err != nil {
			c.log.Warn("cleaning up", "what", step.what, "err", err)
			errs = append(errs, err)
		}
	}
	c.steps = nil
	return errors.Join(errs...)
}
