package vmtypes

import (
	"fmt"

	"go.starlark.net/starlark"
)

// driversGlobal declares the drivers that the setup of a type's guests lacks.
const driversGlobal = "setup_drivers"

// Drivers describes the drivers that the setup of a type's guests lacks. It has no effect on existing VMs.
type Drivers struct {
	// Option is the name of the option for the CD with these drivers; empty if the setup lacks no drivers.
	Option string `json:"option,omitempty"`
	// Without are values of options, by name, for a new VM without that CD.
	Without map[string]string `json:"without,omitempty"`
}

// Missing returns the options, by name, of a new VM without the CD with the drivers. It is empty if the setup lacks no
// drivers. isSet reports whether the VM sets an option itself.
func (d Drivers) Missing(isSet func(option string) bool) map[string]string {
	options := map[string]string{}
	if d.Option == "" || isSet(d.Option) {
		return options
	}
	for name, value := range d.Without {
		if !isSet(name) {
			options[name] = value
		}
	}
	return options
}

// readDrivers reads the global about drivers, and checks it against the options of the type.
func readDrivers(globals starlark.StringDict, options []Option) (d Drivers, err error) {
	v := globals[driversGlobal]
	if v == nil {
		return d, nil
	}
	dict, _ := v.(*starlark.Dict)
	values, _ := valueOf(dict, "without").(*starlark.Dict)
	var ok bool
	if d.Option, ok = starlark.AsString(valueOf(dict, "option")); !ok || values == nil || dict.Len() > 2 {
		return d, fmt.Errorf(`%s must have the form {"option": NAME, "without": {NAME: VALUE}}, with names of options`, driversGlobal)
	}
	known := map[string]Option{}
	for _, o := range options {
		known[o.Name] = o
	}
	if _, has := known[d.Option]; !has {
		return d, fmt.Errorf("%s names the option %q, but the type has no such option", driversGlobal, d.Option)
	}
	d.Without = map[string]string{}
	for key, v := range values.Entries() {
		name, _ := starlark.AsString(key)
		value, isText := starlark.AsString(v)
		option, has := known[name]
		switch {
		case !has:
			return d, fmt.Errorf("%s names the option %s, but the type has no such option", driversGlobal, key)
		case !isText:
			return d, fmt.Errorf("%s: the value of %s must be a string", driversGlobal, name)
		}
		if err := option.CheckText(value); err != nil {
			return d, fmt.Errorf("%s: %s: %w", driversGlobal, name, err)
		}
		d.Without[name] = value
	}
	return d, nil
}

// valueOf returns the value of a key, which may be absent. The dict may be nil.
func valueOf(dict *starlark.Dict, key string) starlark.Value {
	if dict == nil {
		return starlark.None
	}
	if v, has, err := dict.Get(starlark.String(key)); has && err == nil {
		return v
	}
	return starlark.None
}
