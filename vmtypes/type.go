package vmtypes

import (
	"context"
	"errors"
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
	// defaults decides sizes; nil if the type leaves them to package vmspec.
	defaults *starlark.Function
	sizing   Sizing
	drivers  Drivers
	options  declared
	// apiVersion is the version of the language; 0 for types that are older than language versions.
	apiVersion int
	generation string   // of the library; "" for types that are older than generations
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
	l.compiled = precompiledModule
	m, err := l.loadModule(entry)
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %w", name, err)
	}
	launch, defaults, err := entryPoints(m)
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %w", name, err)
	}
	sizing, err := readSizing(m.globals)
	if err != nil {
		return nil, fmt.Errorf("VM type %s: %s: %w", name, m.name, err)
	}
	if m.version > 0 {
		version = m.version
	}
	t := &Type{
		name: name, entry: entry, apiVersion: version, modules: l.order, launch: launch, defaults: defaults,
		records: new(records), generation: Generation, sizing: sizing,
	}
	if version == 0 {
		t.options.free = true
	} else if t.options, err = declarationsOf(m, t.sourceOf); err != nil {
		return nil, fmt.Errorf("VM type %s: %w", name, err)
	}
	if t.drivers, err = readDrivers(m.globals, t.options.options); err != nil {
		return nil, fmt.Errorf("VM type %s: %s: %w", name, m.name, err)
	}
	return t, nil
}

// entryPoints returns the module's functions launch(vm, host) and defaults(vm), or an error. defaults is nil if there
// is none.
func entryPoints(m *module) (launch, defaults *starlark.Function, err error) {
	if m.globals["launch"] == nil {
		msg := m.name + ": a VM type must define launch(vm, host)"
		if near := spelling.Nearest("launch", m.globals.Keys()); near != "" {
			msg += "; is " + near + " misspelt?"
		}
		return nil, nil, &Error{Message: msg}
	}
	if launch, err = entryPoint(m, "launch", "vm, host"); err != nil || m.globals[defaultsGlobal] == nil {
		return launch, nil, err
	}
	defaults, err = entryPoint(m, defaultsGlobal, "vm")
	return launch, defaults, err
}

// entryPoint returns a function of a module, which must have the given parameters. Further parameters must be
// optional: they are for types that build on this one.
func entryPoint(m *module, name, parameters string) (*starlark.Function, error) {
	fn, ok := m.globals[name].(*starlark.Function)
	if !ok {
		return nil, &Error{Message: fmt.Sprintf("%s: %s must be a function %s(%s), not %s",
			m.name, name, name, parameters, withArticle(m.globals[name]))}
	}
	var params []string
	for i := range fn.NumParams() {
		name, _ := fn.Param(i)
		if len(params) >= strings.Count(parameters, ",")+1 && isOptional(fn, i) {
			continue
		}
		params = append(params, name)
	}
	if got := strings.Join(params, ", "); got != parameters {
		return nil, errorAt(fn.Position(), fmt.Sprintf("%s must take (%s), not (%s)", name, parameters, got), nil, nil,
			func(string) string { return m.source })
	}
	return fn, nil
}

// isOptional reports whether a call can omit the i-th parameter of a function.
func isOptional(fn *starlark.Function, i int) bool {
	variadic := fn.NumParams()
	if fn.HasVarargs() {
		variadic--
	}
	if fn.HasKwargs() {
		variadic--
	}
	return i >= variadic || fn.ParamDefault(i) != nil
}

// CheckOptions returns a *FieldsError if vm.options contains errors, or the error of a function that computes a
// default.
func (t *Type) CheckOptions(ctx context.Context, spec vmspec.Spec, files Files) error {
	_, err := t.options.readOptions(limitedCaller(ctx), t.records, t.name, spec.Options, files)
	return err
}

// Launch returns the plan for a VM on a host. spec must contain its defaults, except for sizes, which the type may
// decide (see Sizes). The plan omits drives of NBD servers. If the type rejects fields, the error is a *FieldsError.
// If the plan cannot work, Launch returns it together with a *FaultsError.
func (t *Type) Launch(ctx context.Context, spec vmspec.Spec, host Host) (*plan.Plan, error) {
	options, err := t.options.readOptions(limitedCaller(ctx), t.records, t.name, spec.Options, host.Files)
	if err != nil {
		return nil, err
	}
	sizes, err := t.sizesWith(ctx, spec, options.value)
	if err != nil {
		return nil, err
	}
	spec = spec.FillSizes(sizes).WithSize().WithoutNBD()
	result, err := t.callFunction(ctx, t.launch, t.records.vmRecord(t.withClock(spec), options.value), hostValue{&host})
	if err != nil {
		return nil, err
	}
	p, ok := result.(*partValue)
	if !ok {
		return nil, fmt.Errorf("VM type %s: %w", t.name, errorAt(t.launch.Position(),
			fmt.Sprintf("launch must return a part, not %s", withArticle(result)), nil, nil, t.sourceOf))
	}
	made, err := finishPlan(t.name, p, spec, host)
	made.Warnings, made.SecretFiles = options.warnings, options.secrets
	return made, err
}

// finishPlan converts the result of launch to a checked plan.
func finishPlan(name string, p *partValue, spec vmspec.Spec, host Host) (*plan.Plan, error) {
	made := p.asPlan(name)
	host.pinMachine(made)
	hideCredentials(made, spec, host)
	faults := append(made.Check(), completePlan(made, p.stated, spec)...)
	faults = append(faults, made.CheckClients(host.RuntimeDir)...)
	faults = append(faults, host.Files.CheckFiles(made, spec.Options)...)
	host.separateTPM(made)
	if len(faults) > 0 {
		return made, &FaultsError{Type: name, Faults: faults}
	}
	return made, nil
}

// callFunction calls a function of the type. If the type rejects fields of the vm section, the error is a *FieldsError.
func (t *Type) callFunction(ctx context.Context, fn starlark.Callable, args ...starlark.Value) (
	result starlark.Value, err error,
) {
	thread := &starlark.Thread{Name: fn.Name() + " " + t.name, Print: discardPrint}
	result, err = collectRefusals(thread, t.name, func() (result starlark.Value, err error) {
		defer recoverAs(thread, &err)
		stop := limitThread(ctx, thread)
		defer stop()
		result, err = starlark.Call(thread, fn, args, nil)
		return result, explainLimit(ctx, thread, err)
	})
	if err != nil && !errors.As(err, new(*FieldsError)) {
		err = fmt.Errorf("VM type %s: %w", t.name, explainError(err, t.sourceOf))
	}
	return result, err
}

func (t *Type) sourceOf(name string) string {
	for _, m := range t.modules {
		if m.name == name {
			return m.source
		}
	}
	return ""
}
