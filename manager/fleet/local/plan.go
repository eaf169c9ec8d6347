package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"vmop/manager/fleet"
	"vmop/runner/control"
	"vmop/vmtypes/plan"
	"vmop/yamlfile"
)

// Plan implements fleet.Fleet.
func (f *Fleet) Plan(ctx context.Context, name string) ([]fleet.Argument, error) {
	p, err := f.inventory.Plan(ctx, name)
	if err != nil {
		return nil, explain(err)
	}
	lines := arguments(p.QEMU)
	for _, helper := range p.Helpers {
		lines = append(lines, arguments(helper)...)
	}
	return lines, nil
}

// Source implements fleet.Fleet.
func (f *Fleet) Source(ctx context.Context, name, module string) (string, error) {
	text, err := f.inventory.Source(ctx, name, module)
	return text, explain(err)
}

// Usage implements fleet.Fleet.
func (f *Fleet) Usage(ctx context.Context, name string) ([]fleet.Sample, error) {
	client, err := f.dial(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := client.Usage(ctx)
	var answer *control.AnswerError
	if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
		return nil, nil // a runner of an earlier version
	}
	samples := make([]fleet.Sample, len(list))
	for i, u := range list {
		samples[i] = fleet.Sample(u)
	}
	return samples, explain(err)
}

// arguments returns a process with its arguments.
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

// redact returns a configuration without what may be secret: cloud-init's data, and the
// passwords in addresses. The file must be YAML, or it is not known where secrets are.
func redact(text []byte) (string, error) {
	section, err := sectionOf(text)
	if err != nil {
		return "", fleet.Refusal(fmt.Sprintf("the file can't be shown without its secrets: %v", err))
	}
	path := []string{section, "cloudInit"}
	for _, key := range []string{"userData", "metaData", "networkConfig", "vendorData"} {
		has, err := yamlfile.Has(text, append(path, key)...)
		if err == nil && has {
			text, err = yamlfile.Edit(text, "left out", append(path, key)...)
		}
		if err != nil {
			return "", fleet.Refusal(fmt.Sprintf("the file can't be shown without its secrets: %v", err))
		}
	}
	userInAddress := regexp.MustCompile(`(https?://)[^/?#\s"']*@`)
	return userInAddress.ReplaceAllString(string(text), "${1}…@"), nil
}
