package describe

import (
	"context"
	"errors"
	"net/http"

	"vmop/internal/printable"
	"vmop/manager/web/fleet"
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
	return list, err
}

// Events returns what has happened to a VM, as its runner has seen it; nothing if it is of a version that
// doesn't tell.
func Events(ctx context.Context, runner *control.Client) ([]fleet.Event, error) {
	list, err := runner.History(ctx)
	var answer *control.AnswerError
	if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
		return nil, nil
	}
	events := make([]fleet.Event, len(list))
	for i, h := range list {
		events[i] = fleet.Event{
			At: h.At, Count: 1, Warning: h.Warning, Reason: printable.Line(string(h.Reason)),
			Text: printable.Line(h.Note),
		}
	}
	return fleet.Timeline(events), err
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
