package vmtypes

import (
	"context"
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A Script is a module that is evaluated for something else than launching:
// the tests of VM types (package vmtypestest).
type Script struct {
	loader *loader
	module *module
}

// Script evaluates a file of the library's folder. It can load what VM types
// can load, and the modules in extra, which are named as load spells them.
func (l *Library) Script(ctx context.Context, file string, extra map[string]starlark.StringDict) (*Script, error) {
	loader := newLoader(ctx, l.read)
	loader.compiled = precompiled
	for name, globals := range extra {
		loader.entries[name] = &module{name: name, globals: globals}
	}
	m, err := loader.load(file)
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

// Call calls a function of the script without arguments, in a thread of its
// own that prepare may adorn, within the limits of a VM type. What it returns
// is an [*Error].
func (s *Script) Call(ctx context.Context, fn *starlark.Function, prepare func(*starlark.Thread)) error {
	thread := &starlark.Thread{Name: fn.Name(), Print: discardPrint}
	prepare(thread)
	if err := s.call(ctx, thread, fn); err != nil {
		return explain(err, s.loader.source)
	}
	return nil
}

func (s *Script) call(ctx context.Context, thread *starlark.Thread, fn *starlark.Function) (err error) {
	defer recoverAs(thread, &err)
	stop := limit(ctx, thread)
	defer stop()
	_, err = starlark.Call(thread, fn, nil, nil)
	return explainLimit(ctx, thread, err)
}

// At returns a message with the place where a thread of the script is.
func (s *Script) At(thread *starlark.Thread, message string) *Error {
	place, calls := placeOf(reversed(thread.CallStack()))
	return at(place, message, calls, nil, s.loader.source)
}

// Explain returns an error of the interpreter as an [*Error] with its place.
func (s *Script) Explain(err error) error { return explain(err, s.loader.source) }

// Launch calls a VM type's launch function in a thread of a script and returns
// the plan, as [Type.Launch] does. The options are those that the module of the
// function declares.
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
	vm, err := new(records).vm(vmType, spec, options, host.Files)
	if err != nil {
		return nil, err
	}
	result, err := starlark.Call(thread, launch, starlark.Tuple{vm, hostValue{&host}}, nil)
	if err != nil {
		return nil, err
	}
	p, ok := result.(*partValue)
	if !ok {
		return nil, fmt.Errorf("%s returned %s, want a part", launch.Name(), article(result))
	}
	return finish(name, p, spec, host)
}
