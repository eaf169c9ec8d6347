package describe

import (
	"context"
	"errors"
	"net/http"

	"vmop/manager/fleet"
	"vmop/qmp"
	"vmop/runner/control"
)

// Usage returns what a VM has used during the last hour; nothing if its runner is of a version that
// doesn't measure it.
func Usage(ctx context.Context, runner *control.Client) ([]fleet.Sample, error) {
	list, err := runner.Usage(ctx)
	var answer *control.AnswerError
	if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
		return nil, nil
	}
	samples := make([]fleet.Sample, len(list))
	for i, u := range list {
		samples[i] = fleet.Sample(u)
	}
	return samples, err
}

// Refusal makes a fleet.Refusal of what a runner, or its QEMU, refuses, and fleet.ErrOccupied of a
// screen or console that is in use. Other errors stay as they are.
func Refusal(err error) error {
	var answer *control.AnswerError
	var refused *qmp.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &answer) && answer.Code == http.StatusLocked:
		return fleet.ErrOccupied
	case errors.As(err, &answer), errors.As(err, &refused):
		return fleet.Refusal(err.Error())
	}
	return err
}
