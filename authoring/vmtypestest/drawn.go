package vmtypestest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	starjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"

	"vmop/authoring/draw"
	"vmop/internal/yamlfile"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// mostDrawn is the maximum number of drawn VMs, because a test has a time limit.
const mostDrawn = 200

// drawVMs implements draw(launch, number, seed=1, **vm). It returns dicts with arguments for plan_of.
func drawVMs(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	test, err := recorderOf(thread)
	if err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	var launch starlark.Callable
	var number int
	if err := starlark.UnpackPositionalArgs(b.Name(), args, nil, 2, &launch, &number); err != nil {
		return nil, err
	}
	if number < 1 || number > mostDrawn {
		return nil, fmt.Errorf("draw: number can't be %d; it can be 1 to %d", number, mostDrawn)
	}
	from, err := drawSource(thread, launch, kwargs)
	if err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	vms, err := from.Accepted(test.ctx, number,
		func(_ context.Context, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
			p, err := vmtypes.Launch(thread, launch.Name(), launch, spec, host)
			if errors.As(err, new(*starlark.EvalError)) {
				err = test.script.Explain(err)
			}
			return p, err
		})
	if err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	list := make([]map[string]any, len(vms))
	for i, vm := range vms {
		list[i] = vm.Section
		list[i]["host"] = vm.Host
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("draw: %w", err)
	}
	return starlark.Call(thread, starjson.Module.Members["decode"], starlark.Tuple{starlark.String(text)}, nil)
}

// drawSource returns the source of VMs for the keyword arguments of draw.
func drawSource(thread *starlark.Thread, launch starlark.Callable, kwargs []starlark.Tuple) (*draw.Source, error) {
	options, err := vmtypes.OptionsOf(launch)
	if err != nil {
		return nil, err
	}
	seed, fixed := uint64(1), starlark.NewDict(len(kwargs))
	for _, kw := range kwargs {
		if name := string(kw[0].(starlark.String)); name == "seed" {
			if err := starlark.AsInt(kw[1], &seed); err != nil {
				return nil, fmt.Errorf("seed: %w", err)
			}
			continue
		}
		if err := fixed.SetKey(kw[0], kw[1]); err != nil {
			return nil, err
		}
	}
	from := draw.NewSource(seed, options)
	if fixed.Len() == 0 {
		return from, nil
	}
	text, err := toJSON(thread, fixed)
	if err != nil {
		return nil, err
	}
	section, _, err := yamlfile.Tree("vm", []byte(text)) // JSON is YAML
	if err != nil {
		return nil, err
	}
	return from, from.Fix(section)
}
