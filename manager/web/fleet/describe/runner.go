package describe

import (
	"context"
	"errors"
	"net/http"

	"vmop/internal/printable"
	"vmop/manager/web/fleet"
	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/hardware"
)

// Usage returns the resource usage of a VM during the last hour; nil if its runner is too old to measure it.
func Usage(ctx context.Context, runner *control.Client) ([]fleet.Sample, error) {
	list, err := runner.Usage(ctx)
	var answer *control.AnswerError
	if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
		return nil, nil
	}
	return list, err
}

// NoDevices is the error for the devices of a VM without a machine.
const NoDevices = fleet.Refusal("cannot list the devices: the VM is not running; start it")

// Devices returns the devices of a running VM from its runner.
func Devices(ctx context.Context, runner *control.Client) (hardware.Report, error) {
	report, err := runner.Devices(ctx)
	var answer *control.AnswerError
	if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
		err = fleet.Refusal("cannot list the devices: the VM's runner has an earlier version; restart the VM")
	}
	return report, err
}

// Events returns the history of a VM from its runner; nil if the runner is too old to record it.
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

// Refusal converts an error of a runner or its QEMU to a fleet.Refusal, or to fleet.ErrOccupied for a screen or console
// in use. Other errors stay unchanged.
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
