// Package machine is what fleets have in common whose VMs are run by runners: how pages show a
// launch plan, and which answers of a runner are for the user.
package machine

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"vmop/manager/fleet"
	"vmop/qmp"
	"vmop/runner/control"
	"vmop/vmtypes/plan"
)

// Arguments returns the processes of a plan with their arguments.
func Arguments(p *plan.Plan) []fleet.Argument {
	lines := arguments(p.QEMU)
	for _, helper := range p.Helpers {
		lines = append(lines, arguments(helper)...)
	}
	return lines
}

func arguments(p plan.Process) []fleet.Argument {
	lines := []fleet.Argument{{Text: p.Executable}}
	for _, option := range p.Args {
		words := option.Words(func(name string) string { return "<" + name + ">" })
		a := fleet.Argument{Depth: 1, Text: strings.Join(words, " ")}
		for _, frame := range option.Origin {
			a.Origins = append(a.Origins, frame.String())
		}
		lines = append(lines, a)
	}
	return lines
}

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

// Explain makes a Refusal of what a runner, or its QEMU, refuses, and ErrOccupied of a screen or
// console that is in use. Other errors stay as they are.
func Explain(err error) error {
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
