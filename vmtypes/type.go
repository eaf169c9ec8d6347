package vmtypes

import (
	"context"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

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
	records *records // the shapes of the vm section
}

// Name returns the name of the type.
func (t *Type) Name() string { return t.name }

// Doc returns the docstring of the type's module.
func (t *Type) Doc() string {
	for _, m := range t.modules {
		if m.name == t.entry {
			return moduleDoc(m.source)
		}
	}
	return ""
}

// moduleDoc returns the string a module starts with.
func moduleDoc(source string) string {
	rest, ok := strings.CutPrefix(source, `"""`)
	if !ok {
		return ""
	}
	doc, _, _ := strings.Cut(rest, `"""`)
	return strings.TrimSpace(doc)
}

func loadType(ctx context.Context, name, entry string, read func(string) (string, error), compiled func(string, string) *starlark.Program) (*Type, error) {
	l := newLoader(ctx, read)
	l.compiled = compiled
	m, err := l.load(entry)
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %w", name, err)
	}
	fn, err := entryPoint(m)
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %w", name, err)
	}
	return &Type{name: name, entry: entry, modules: l.order, launch: fn, records: new(records)}, nil
}

// entryPoint returns launch(vm, host) of the module, or says what is wrong.
func entryPoint(m *module) (*starlark.Function, error) {
	v, ok := m.globals["launch"]
	if !ok {
		msg := m.name + ": a VM type must define launch(vm, host)"
		if near := vmspec.Nearest("launch", m.globals.Keys()); near != "" {
			msg += "; is " + near + " misspelt?"
		}
		return nil, &Error{Message: msg}
	}
	fn, ok := v.(*starlark.Function)
	if !ok {
		return nil, &Error{Message: fmt.Sprintf("%s: launch is %s, want a function launch(vm, host)", m.name, article(v))}
	}
	var params []string
	for i := range fn.NumParams() {
		name, _ := fn.Param(i)
		params = append(params, name)
	}
	if got := strings.Join(params, ", "); got != "vm, host" {
		return nil, at(fn.Position(), fmt.Sprintf("launch takes (%s), want launch(vm, host)", got), nil, nil, func(string) string { return m.source })
	}
	return fn, nil
}

// Launch returns the plan for a VM: spec, with its defaults, on host. The plan
// is returned together with a *FaultsError if it cannot work.
func (t *Type) Launch(ctx context.Context, spec vmspec.Spec, host Host) (*plan.Plan, error) {
	result, err := t.call(ctx, t.records.value("vm", spec), hostValue{&host})
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %w", t.name, explain(err, t.source))
	}
	p, ok := result.(*partValue)
	if !ok {
		return nil, fmt.Errorf("VM type %s: %w", t.name, at(t.launch.Position(),
			fmt.Sprintf("launch returned %s, want a part", article(result)), nil, nil, t.source))
	}
	return finish(t.name, p, host)
}

// finish makes the checked plan of what a type's launch returned.
func finish(name string, p *partValue, host Host) (*plan.Plan, error) {
	made := p.plan(name)
	host.pinMachine(made)
	if faults := made.Check(); len(faults) > 0 {
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
