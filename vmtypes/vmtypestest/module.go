package vmtypestest

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	starjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"vmop/vmtypes"
	"vmop/vmtypes/sample"
)

// moduleName is how test files load what is in here.
const moduleName = "@vmtypes//testing.star"

// testing is the module that exists in tests only.
func testing() starlark.StringDict {
	return starlark.StringDict{
		"plan_of": starlark.NewBuiltin("plan_of", planOf),
		"assert": &starlarkstruct.Module{Name: "assert", Members: starlark.StringDict{
			"eq":       starlark.NewBuiltin("assert.eq", assertEq),
			"ne":       starlark.NewBuiltin("assert.ne", assertNe),
			"true":     starlark.NewBuiltin("assert.true", assertTrue),
			"contains": starlark.NewBuiltin("assert.contains", assertContains),
			"fails":    starlark.NewBuiltin("assert.fails", assertFails),
		}},
	}
}

// recorder notes what failed in one test function. It hangs at the thread.
type recorder struct {
	script   *vmtypes.Script
	failures []error
}

const recorderKey = "vmtypestest"

func (r *recorder) attach(thread *starlark.Thread) { thread.SetLocal(recorderKey, r) }

// recorderOf returns the thread's recorder. A module that calls assert while
// it is loaded has none.
func recorderOf(thread *starlark.Thread) (*recorder, error) {
	r, ok := thread.Local(recorderKey).(*recorder)
	if !ok {
		return nil, errors.New("can be called by functions named test_… only, not while a file is loaded")
	}
	return r, nil
}

// fail notes a failure at the place where the thread is.
func fail(thread *starlark.Thread, format string, args ...any) (starlark.Value, error) {
	r, err := recorderOf(thread)
	if err != nil {
		return nil, err
	}
	r.failures = append(r.failures, r.script.At(thread, fmt.Sprintf(format, args...)))
	return starlark.None, nil
}

func assertEq(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var got, want starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "got", &got, "want", &want); err != nil {
		return nil, err
	}
	equal, err := starlark.Equal(got, want)
	if err != nil {
		return nil, err
	}
	if equal {
		return starlark.None, nil
	}
	if gotText, wantText := got.String(), want.String(); len(gotText)+len(wantText) > oneLine {
		return fail(thread, "they differ:\n    got  %s\n    want %s", gotText, wantText)
	}
	return fail(thread, "got %s, want %s", got, want)
}

// oneLine is how much fits on one line beside the place.
const oneLine = 60

func assertNe(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var one, other starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "one", &one, "other", &other); err != nil {
		return nil, err
	}
	equal, err := starlark.Equal(one, other)
	if err != nil {
		return nil, err
	}
	if !equal {
		return starlark.None, nil
	}
	return fail(thread, "both are %s", one)
}

func assertTrue(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var condition starlark.Value
	var message string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "condition", &condition, "message?", &message); err != nil {
		return nil, err
	}
	if condition.Truth() {
		return starlark.None, nil
	}
	if message == "" {
		message = "got " + condition.String() + ", want something true"
	}
	return fail(thread, "%s", message)
}

func assertContains(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var whole, element starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "whole", &whole, "element", &element); err != nil {
		return nil, err
	}
	found, err := starlark.Binary(syntax.IN, element, whole)
	if err != nil {
		return nil, err
	}
	if found.Truth() {
		return starlark.None, nil
	}
	return fail(thread, "%s is not in %s", element, whole)
}

func assertFails(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	var pattern string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "function", &fn, "pattern", &pattern); err != nil {
		return nil, err
	}
	want, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	_, err = starlark.Call(thread, fn, nil, nil)
	if err == nil {
		return fail(thread, "nothing failed; want a failure with a message that matches %s", strconv.Quote(pattern))
	}
	if msg := strings.TrimPrefix(err.Error(), "fail: "); !want.MatchString(msg) {
		return fail(thread, "it failed with\n    %s\nwant a message that matches %s", strings.ReplaceAll(msg, "\n", "\n    "), strconv.Quote(pattern))
	}
	return starlark.None, nil
}

// planOf is plan_of(launch, host={}, **vm).
func planOf(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
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

// toJSON writes dicts, lists, strings, numbers, True, False, None and structs.
func toJSON(thread *starlark.Thread, v starlark.Value) (string, error) {
	text, err := starlark.Call(thread, starjson.Module.Members["encode"], starlark.Tuple{v}, nil)
	if err != nil {
		return "", err
	}
	s, _ := starlark.AsString(text)
	return s, nil
}
