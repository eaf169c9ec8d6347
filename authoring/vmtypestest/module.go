package vmtypestest

import (
	"fmt"

	starjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"vmop/authoring/sample"
	"vmop/vmtypes"
)

// moduleName is the name of the testing module in load statements.
const moduleName = "@vmtypes//testing.star"

// testingModule returns the module that only tests can load.
func testingModule() starlark.StringDict {
	return starlark.StringDict{
		"draw":    starlark.NewBuiltin("draw", drawVMs),
		"plan_of": starlark.NewBuiltin("plan_of", planOf),
		"assert":  &starlarkstruct.Module{Name: "assert", Members: assertMembers()},
	}
}

// planOf implements plan_of(launch, host={}, **vm).
func planOf(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	vm := starlark.NewDict(len(kwargs) + 2)
	fields := starlark.StringDict{"name": starlark.String("vm"), "uuid": starlark.String(sample.UUID)}
	var host starlark.Value = starlark.NewDict(0)
	for _, kw := range kwargs {
		if name := string(kw[0].(starlark.String)); name == "host" {
			host = kw[1]
		} else {
			fields[name] = kw[1]
		}
	}
	for name, value := range fields {
		if err := vm.SetKey(starlark.String(name), value); err != nil {
			return nil, err
		}
	}
	var launch starlark.Callable
	if err := starlark.UnpackPositionalArgs(b.Name(), args, nil, 1, &launch); err != nil {
		return nil, err
	}
	hostText, err := toJSON(thread, host)
	if err != nil {
		return nil, fmt.Errorf("plan_of: host: %w", err)
	}
	facts, err := sample.ParseHost([]byte(hostText))
	if err != nil {
		return nil, fmt.Errorf("plan_of: %w", err)
	}
	vmText, err := toJSON(thread, vm)
	if err != nil {
		return nil, fmt.Errorf("plan_of: vm: %w", err)
	}
	spec, err := sample.ParseConfig(`{"/Runner": {"vm": ` + vmText + `}}`) // JSON is YAML
	if err != nil {
		return nil, fmt.Errorf("plan_of: %w", err)
	}
	made, err := vmtypes.Launch(thread, launch.Name(), launch, spec, facts.Host())
	if err != nil {
		return nil, err
	}
	return planValue(made), nil
}

// toJSON encodes dicts, lists, strings, numbers, True, False, None and structs.
func toJSON(thread *starlark.Thread, v starlark.Value) (string, error) {
	text, err := starlark.Call(thread, starjson.Module.Members["encode"], starlark.Tuple{v}, nil)
	if err != nil {
		return "", err
	}
	s, _ := starlark.AsString(text)
	return s, nil
}
