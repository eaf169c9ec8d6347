package vmtypes

import (
	"context"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"vmop/internal/spelling"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A Type is a loaded and checked VM type. Several goroutines can use it concurrently.
type Type struct {
	name    string
	entry   string // the module that defines launch
	modules []*module
	launch  *starlark.Function
	options declared
	// apiVersion is the version of the language; 0 for types that are older than language versions.
	apiVersion int
	records    *records // the shapes of the vm section
}

// Name returns the name of the type.
func (t *Type) Name() string { return t.name }

// Doc returns the docstring of the type's module.
func (t *Type) Doc() string { return DescribeModule(t.entry, t.sourceOf(t.entry)).Doc }

// loadType loads the type that the module entry defines. version is the version of the language if the module has
// no declaration.
func loadType(ctx context.Context, name, entry string, version int, read func(string) (string, error)) (*Type, error) {
	l := newLoader(ctx, read)
	l.compiled = precompiledProgram
	m, err := l.loadModule(entry)
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
	} else if t.options, err = declarationsOf(m); err != nil {
		return nil, fmt.Errorf("VM type %s: %w", name, err)
	}
	return t, nil
}

// entryPoint returns the module's function launch(vm, host), or an error.
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
		return nil, &Error{Message: fmt.Sprintf("%s: launch must be a function launch(vm, host), not %s",
			m.name, withArticle(v))}
	}
	var params []string
	for i := range fn.NumParams() {
		name, _ := fn.Param(i)
		params = append(params, name)
	}
	if got := strings.Join(params, ", "); got != "vm, host" {
		return nil, errorAt(fn.Position(), fmt.Sprintf("launch must take (vm, host), not (%s)",
			got), nil, nil, func(string) string { return m.source })
	}
	return fn, nil
}

// CheckOptions returns an *OptionsError if vm.options contains errors.
func (t *Type) CheckOptions(spec vmspec.Spec, files Files) error {
	if _, faults := t.options.optionsValue(t.records, t.name, spec.Options, files); len(faults) > 0 {
		return &OptionsError{Type: t.name, Faults: faults}
	}
	return nil
}

// Launch returns the plan for a VM on a host. spec must contain its defaults. The plan omits drives of NBD
// servers. If the type rejects an option, the error is an *OptionsError. If the plan cannot work, Launch returns
// it together with a *FaultsError.
func (t *Type) Launch(ctx context.Context, spec vmspec.Spec, host Host) (*plan.Plan, error) {
	spec = spec.WithoutNBD()
	vm, err := t.records.vmRecord(t.name, spec, t.options, host.Files)
	if err != nil {
		return nil, err
	}
	result, err := t.callLaunch(ctx, vm, hostValue{&host})
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %w", t.name, explainError(err, t.sourceOf))
	}
	p, ok := result.(*partValue)
	if !ok {
		return nil, fmt.Errorf("VM type %s: %w", t.name, errorAt(t.launch.Position(),
			fmt.Sprintf("launch must return a part, not %s", withArticle(result)), nil, nil, t.sourceOf))
	}
	return finishPlan(t.name, p, spec, host)
}

// finishPlan converts the result of launch to a checked plan.
func finishPlan(name string, p *partValue, spec vmspec.Spec, host Host) (*plan.Plan, error) {
	made := p.asPlan(name)
	host.pinMachine(made)
	hideCredentials(made, spec, host)
	faults := append(made.Check(), completePlan(made, p.stated, spec)...)
	faults = append(faults, host.Files.CheckFiles(made, spec.Options)...)
	host.separateTPM(made)
	if len(faults) > 0 {
		return made, &FaultsError{Type: name, Faults: faults}
	}
	return made, nil
}

func (t *Type) callLaunch(ctx context.Context, args ...starlark.Value) (result starlark.Value, err error) {
	thread := &starlark.Thread{Name: "launch " + t.name, Print: discardPrint}
	defer recoverAs(thread, &err)
	stop := limitThread(ctx, thread)
	defer stop()
	result, err = starlark.Call(thread, t.launch, args, nil)
	return result, explainLimit(ctx, thread, err)
}

func (t *Type) sourceOf(name string) string {
	for _, m := range t.modules {
		if m.name == name {
			return m.source
		}
	}
	return ""
}
