package vmtypes

import (
	"fmt"
	"slices"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// changeBuiltin implements change(part, selector, props). It returns a copy of the part with changed properties of one
// option. The rest of the part stays the same, including taps and listeners. The place of the change is added to the
// option's origin.
func changeBuiltin(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var old *partValue
	var sel string
	var props *starlark.Dict
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "part", &old, "option", &sel, "props", &props); err != nil {
		return nil, err
	}
	at := -1
	for i, o := range old.options {
		if !selectsOption(sel, o) {
			continue
		}
		if at >= 0 {
			return nil, fmt.Errorf("change: several options are %q; give each of them an id", sel)
		}
		at = i
	}
	if at < 0 {
		return nil, fmt.Errorf("change: no option is %q%s", sel, didYouMeanOption(sel, old.optionSelectors()))
	}
	if !old.options[at].List {
		return nil, fmt.Errorf("change: %s has no properties; replace it with another option: replace(part, option(…))", sel)
	}
	changed := *old.options[at]
	var err error
	if changed.Properties, err = changedProperties(changed, props); err != nil {
		return nil, err
	}
	changed.Origin = changed.Origin.Change(originOf(thread))
	p := &partValue{}
	if err := p.addPart(old); err != nil {
		return nil, err
	}
	p.options = slices.Clone(p.options)
	p.options[at] = &changed
	return p, nil
}

// changedProperties returns the properties of an option, updated from a dict: a property keeps its position, new
// properties follow at the end, and None removes a property.
func changedProperties(o plan.Option, props *starlark.Dict) ([]plan.Property, error) {
	list := slices.Clone(o.Properties)
	for k, v := range props.Entries() {
		one := starlark.NewDict(1)
		if err := one.SetKey(k, v); err != nil {
			return nil, err
		}
		set, err := propertiesOf(o.Flag, one)
		if err != nil {
			return nil, err
		}
		key, _ := starlark.AsString(k)
		at := slices.IndexFunc(list, func(p plan.Property) bool { return p.Key == key })
		if at < 0 {
			at = len(list)
		}
		list = slices.DeleteFunc(list, func(p plan.Property) bool { return p.Key == key })
		list = slices.Insert(list, min(at, len(list)), set...)
	}
	return list, nil
}
