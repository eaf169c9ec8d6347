package vmtypes

import (
	"sort"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// Predeclared are the names that modules can use besides those of Starlark.
func Predeclared() starlark.StringDict {
	return starlark.StringDict{
		"option":    starlark.NewBuiltin("option", option),
		"part":      starlark.NewBuiltin("part", part),
		"combine":   starlark.NewBuiltin("combine", combine),
		"replace":   starlark.NewBuiltin("replace", replace),
		"process":   starlark.NewBuiltin("process", process),
		"tap":       starlark.NewBuiltin("tap", tap),
		"listen":    starlark.NewBuiltin("listen", listen),
		"copy_once": starlark.NewBuiltin("copy_once", copyOnce),
		"hotplug":   hotplug(),
		"struct":    starlark.NewBuiltin("struct", starlarkstruct.Make),
	}
}

// names returns the sorted names of all dicts.
func names(dicts ...starlark.StringDict) []string {
	var list []string
	for _, d := range dicts {
		for name := range d {
			list = append(list, name)
		}
	}
	sort.Strings(list)
	return list
}
