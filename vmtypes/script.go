package vmtypes

import (
	"context"
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A Script is an evaluated module that does not launch a VM, such as a test of VM types (package vmtypestest).
type Script struct {
	loader *loader
	module *module
}

// Script evaluates a file in the library's folder. The file can load the same modules as a VM type, and the
// modules in extra. The keys of extra are names as in load statements.
func (l *Library) Script(ctx context.Context, file string, extra map[string]starlark.StringDict) (*Script, error) {
	loader := newLoader(ctx, l.readSource)
	loader.compiled = precompiledModule
	for name, globals := range extra {
		loader.entries[name] = &module{name: name, globals: globals}
	}
	m, err := loader.loadModule(file)
	if err != nil {
		return nil, err
	}
	return &Script{loader, m}, nil
}

// Functions returns the functions that the module defines, in source order.
func (s *Script) Functions() []*starlark.Function {
	var list []*starlark.Function
	for _, v := range s.module.globals {
		if fn, ok := v.(*starlark.Function); ok && fn.Position().Filename() == s.module.name {
			list = append(list, fn)
		}
	}
	slices.SortFunc(list, func(a, b *starlark.Function) int { return int(a.Position().Line - b.Position().Line) })
	return list
}

// Call calls a function of the script without arguments, in its own thread and within the limits of a VM type.
// prepare may add values to the thread. Errors have the type [*Error].
func (s *Script) Call(ctx context.Context, fn *starlark.Function, prepare func(*starlark.Thread)) error {
	thread := &starlark.Thread{Name: fn.Name(), Print: discardPrint}
	prepare(thread)
	if err := s.callFunction(ctx, thread, fn); err != nil {
		return explainError(err, s.loader.sourceOf)
	}
	return nil
}

func (s *Script) callFunction(ctx context.Context, thread *starlark.Thread, fn *starlark.Function) (err error) {
	defer recoverAs(thread, &err)
	stop := limitThread(ctx, thread)
	defer stop()
	_, err = starlark.Call(thread, fn, nil, nil)
	return explainLimit(ctx, thread, err)
}

// At returns a message with the current place of a thread of the script.
func (s *Script) At(thread *starlark.Thread, message string) *Error {
	place, calls := innermostPlace(reversedFrames(thread.CallStack()))
	return errorAt(place, message, calls, nil, s.loader.sourceOf)
}

// Explain converts an error of the interpreter to an [*Error] with its place.
func (s *Script) Explain(err error) error { return explainError(err, s.loader.sourceOf) }

// OptionsOf returns the options that the module of a launch function declares.
func OptionsOf(launch starlark.Callable) ([]Option, error) {
	fn, ok := launch.(*starlark.Function)
	if !ok {
		return nil, nil
	}
	d, err := declaredBy(fn.Globals())
	return d.options, err
}

// Launch calls a VM type's launch function in a thread of a script and returns the plan, as [Type.Launch] does.
// The function's module declares the options.
func Launch(
	thread *starlark.Thread, name string, launch starlark.Callable, spec vmspec.Spec, host Host) (*plan.Plan, error,
) {
	t := Type{name: name, generation: Generation, records: new(records)}
	if fn, ok := launch.(*starlark.Function); ok {
		var err error
		if t.options, err = declaredBy(fn.Globals()); err != nil {
			return nil, err
		}
		t.name = typeName(fn.Position().Filename())
		t.defaults, _ = fn.Globals()[defaultsGlobal].(*starlark.Function)
	}
	call := func(fn starlark.Callable, args ...starlark.Value) (starlark.Value, error) {
		return collectRefusals(thread, t.name, func() (starlark.Value, error) {
			return starlark.Call(thread, fn, args, nil)
		})
	}
	caller := func(fn *starlark.Function, options starlark.Value) (starlark.Value, error) {
		return starlark.Call(thread, fn, starlark.Tuple{options}, nil)
	}
	given, err := t.options.readOptions(caller, t.records, t.name, spec.Options, host.Files)
	if err != nil {
		return nil, err
	}
	sizes, err := t.decideSizes(spec, given.value, call)
	if err != nil {
		return nil, err
	}
	spec = spec.FillSizes(sizes).WithSize()
	result, err := call(launch, t.records.vmRecord(t.withClock(spec), given.value), hostValue{&host})
	if err != nil {
		return nil, err
	}
	p, ok := result.(*partValue)
	if !ok {
		return nil, fmt.Errorf("%s must return a part, not %s", launch.Name(), withArticle(result))
	}
	return finishPlan(name, p, spec, host)
}
