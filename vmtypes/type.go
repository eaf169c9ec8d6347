package vmtypes

import (
	"context"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"vmop/spelling"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A Type is a VM type, loaded and checked. It can be used by several
// goroutines at once.
type Type struct {
	name    string
	entry   string // the module that defines launch
	modules []*module
	launch  *starlark.Function
	options declared
	// apiVersion is that of the language; 0 is before there were versions.
	apiVersion int
	records    *records // the shapes of the vm section
}

// Name returns the name of the type.
func (t *Type) Name() string { return t.name }

// Doc returns the docstring of the type's module.
func (t *Type) Doc() string { return DescribeModule(t.entry, t.source(t.entry)).Doc }

// loadType loads the type that the module entry defines. version is that of the
// language if the module doesn't declare one.
func loadType(ctx context.Context, name, entry string, version int, read func(string) (string, error)) (*Type, error) {
	l := newLoader(ctx, read)
	l.compiled = precompiled
	m, err := l.load(entry)
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %w", name, err)
	}
	fn, err := entryPoint(m)
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %w", name, err)
	}
	if m.version > 0 {
		version = m.version
	}
	t := &Type{name: name, entry: entry, apiVersion: version, modules: l.order, launch: fn, records: new(records)}
	if version == 0 {
		t.options.free = true
	} else if t.options, err = declarations(m); err != nil {
		return nil, fmt.Errorf("VM type %s: %w", name, err)
	}
	return t, nil
}

// entryPoint returns launch(vm, host) of the module, or says what is wrong.
func entryPoint(m *module) (*starlark.Function, error) {
	v, ok := m.globals["launch"]
	if !ok {
		msg := m.name + ": a VM type must define launch(vm, host)"
		if near := spelling.Nearest("launch", m.globals.Keys()); near != "" {
			msg += "; is " + near + " misspelt?"
		}
		return nil, &Error{Message: msg}
	}
	fn, ok := v.(*starlark.Function)
	if !ok {
		return nil, &Error{Message: fmt.Sprintf("%s: launch is %s, want a function launch(vm, host)",
			m.name, article(v))}
	}
	var params []string
	for i := range fn.NumParams() {
		name, _ := fn.Param(i)
		params = append(params, name)
	}
	if got := strings.Join(params, ", "); got != "vm, host" {
		return nil, at(fn.Position(), fmt.Sprintf("launch takes (%s), want launch(vm, host)",
			got), nil, nil, func(string) string { return m.source })
	}
	return fn, nil
}

// CheckOptions returns an *OptionsError if vm.options of a spec has faults.
func (t *Type) CheckOptions(spec vmspec.Spec, files Files) error {
	if _, faults := t.options.value(t.records, t.name, spec.Options, files); len(faults) > 0 {
		return &OptionsError{Type: t.name, Faults: faults}
	}
	return nil
}

// Launch returns the plan for a VM: spec, with its defaults, on host. Options
// that the type doesn't take are an *OptionsError. Drives of NBD servers are not in it. The plan is returned together
// with a *FaultsError if it cannot work.
func (t *Type) Launch(ctx context.Context, spec vmspec.Spec, host Host) (*plan.Plan, error) {
	spec = spec.WithoutNBD()
	vm, err := t.records.vm(t.name, spec, t.options, host.Files)
	if err != nil {
		return nil, err
	}
	result, err := t.call(ctx, vm, hostValue{&host})
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %w", t.name, explain(err, t.source))
	}
	p, ok := result.(*partValue)
	if !ok {
		return nil, fmt.Errorf("VM type %s: %w", t.name, at(t.launch.Position(),
			fmt.Sprintf("launch returned %s, want a part", article(result)), nil, nil, t.source))
	}
	return finish(t.name, p, spec, host)
}

// finish makes the checked plan of what a type's launch returned.
func finish(name string, p *partValue, spec vmspec.Spec, host Host) (*plan.Plan, error) {
	made := p.plan(name)
	host.pinMachine(made)
	hideCredentials(made, spec, host)
	faults := append(made.Check(), complete(made, p.stated, spec)...)
	faults = append(faults, host.Files.CheckFiles(made, spec.Options)...)
	host.separateTPM(made)
	if len(faults) > 0 {
		return made, &FaultsError{Type: name, Faults: faults}
	}
	return made, nil
}

func (t *Type) call(ctx context.Context, args ...starlark.Value) (result starlark.Value, err error) {
	thread := &starlark.Thread{Name: "launch " + t.name, Print: discardPrint}
	defer recoverAs(thread, &err)
	stop := limit(ctx, thread)
	defer stop()
	result, err = starlark.Call(thread, t.launch, args, nil)
	return result, explainLimit(ctx, thread, err)
}

func (t *Type) source(name string) string {
	for _, m := range t.modules {
		if m.name == name {
			return m.source
		}
	}
	return ""
}
