package vmtypes

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"vmop/internal/printable"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A FieldsError means that the vm section contains values that the VM type rejects.
type FieldsError struct {
	// Type is the name of the VM type.
	Type string
	// Faults contains at least one error. All paths begin with "vm.".
	Faults []vmspec.Fault
	// Origins are the places in the type that refuse fields, in the order of Faults. It is nil if the declarations of
	// the options reject the values.
	Origins []plan.Origin
}

// Error returns one line per error.
func (e *FieldsError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// refusals collects the fields that a VM type refuses during one call of its function.
type refusals struct {
	faults  []vmspec.Fault
	origins []plan.Origin
}

// refusalsKey is the name of the thread's refusals.
const refusalsKey = "refusals"

// mostRefusals is the maximum number of refused fields that are reported.
const mostRefusals = 100

// refuseBuiltin implements refuse(section, field, message, hint=""). It refuses a field of the vm section, or, if field
// is None, a whole section, and lets the type continue, so that all refused fields are reported together. Outside of a
// launch, as in a test of a function, the first refused field is an error.
func refuseBuiltin(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var section, field starlark.Value
	var message, hint string
	err := starlark.UnpackArgs(b.Name(), args, kwargs, "section", &section, "field", &field, "message", &message,
		"hint?", &hint)
	if err != nil {
		return nil, err
	}
	list, collected := thread.Local(refusalsKey).(*refusals)
	path, err := refusedPath(section, field, collected)
	if err != nil {
		return nil, err
	}
	fault := vmspec.Fault{Path: path, Message: printable.Line(message), Hint: printable.Line(hint)}
	if !collected {
		return nil, errors.New(fault.String())
	}
	if len(list.faults) < mostRefusals {
		list.faults, list.origins = append(list.faults, fault), append(list.origins, originOf(thread))
	}
	return starlark.None, nil
}

// refusedPath returns the path of a refused field. During a launch it must be a field of the configuration. Otherwise
// tests may use a struct instead.
func refusedPath(section, field starlark.Value, launch bool) (string, error) {
	name, _ := starlark.AsString(field)
	r, ok := section.(configured)
	switch {
	case !ok && launch:
		return "", fmt.Errorf("refuse: the first argument must be a section of the configuration, such as vm, "+
			"vm.options or vm.drives[0], not %s", withArticle(section))
	case !ok:
		return cmp.Or(name, section.Type()), nil
	case field == starlark.None:
		return r.path(), nil
	}
	first, _, _ := strings.Cut(name, ".")
	first, _, _ = strings.Cut(first, "[")
	if v, err := r.Attr(first); v == nil || err != nil {
		return "", fmt.Errorf("refuse: %s has no field %s%s", r.path(), clipWord(first),
			didYouMean(first, r.AttrNames()))
	}
	return r.path() + "." + clipWord(name), nil
}

// configured is a section of the configuration.
type configured interface {
	starlark.HasAttrs
	// path returns the path of the section: "vm", "vm.drives[0]".
	path() string
}

func (r *record) path() string { return r.name }

// collectRefusals makes refuse collect fields while call runs. If the type vmType refuses any, the error is a
// *FieldsError, even if other errors follow from the refused values.
func collectRefusals(thread *starlark.Thread, vmType string, call func() (starlark.Value, error)) (
	starlark.Value, error,
) {
	outer := thread.Local(refusalsKey)
	list := &refusals{}
	thread.SetLocal(refusalsKey, list)
	defer thread.SetLocal(refusalsKey, outer)
	v, err := call()
	if len(list.faults) > 0 {
		return nil, &FieldsError{Type: vmType, Faults: list.faults, Origins: list.origins}
	}
	return v, err
}
