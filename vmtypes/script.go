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
	loader.compiled = precompiledProgram
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

// Launch calls a VM type's launch function in a thread of a script and returns the plan, as [Type.Launch] does.
// The function's module declares the options.
func Launch(
	thread *starlark.Thread, name string, launch starlark.Callable, spec vmspec.Spec, host Host) (*plan.Plan, error,
) {
	var options declared
	vmType := name
	if fn, ok := launch.(*starlark.Function); ok {
		var err error
		if options, err = declaredBy(fn.Globals()); err != nil {
			return nil, err
		}
		vmType = typeName(fn.Position().Filename())
	}
	vm, err := new(records).vmRecord(vmType, spec, options, host.Files)
	if err != nil {
		return nil, err
	}
	result, err := starlark.Call(thread, launch, starlark.Tuple{vm, hostValue{&host}}, nil)
	if err != nil {
		return nil, err
	}
	p, ok := result.(*partValue)
	if !ok {
		return nil, fmt.Errorf("%s must return a part, not %s", launch.Name(), withArticle(result))
	}
	return finishPlan(name, p, spec, host)
}
