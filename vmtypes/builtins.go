package vmtypes

import (
	"fmt"
	"sort"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// Predeclared are the names that modules can use besides those of Starlark.
func Predeclared() starlark.StringDict {
	return starlark.StringDict{
		"option":    starlark.NewBuiltin("option", option),
		"part":      starlark.NewBuiltin("part", part),
		"combine":   starlark.NewBuiltin("combine", combine),
		"change":    starlark.NewBuiltin("change", change),
		"replace":   starlark.NewBuiltin("replace", replace),
		"process":   starlark.NewBuiltin("process", process),
		"tap":       starlark.NewBuiltin("tap", tap),
		"listen":    starlark.NewBuiltin("listen", listen),
		"copy_once": starlark.NewBuiltin("copy_once", copyOnce),
		"access":    starlark.NewBuiltin("access", access),
		"hotplug":   hotplug(),
		"attr":      attrModule(),
		"struct":    starlark.NewBuiltin("struct", starlarkstruct.Make),
	}
}

// moduleValue is a group of builtins.
type moduleValue struct {
	name    string
	members starlark.StringDict
}

func (m *moduleValue) String() string        { return "<module " + m.name + ">" }
func (m *moduleValue) Type() string          { return "module" }
func (m *moduleValue) Freeze()               {} // its members are builtins
func (m *moduleValue) Truth() starlark.Bool  { return true }
func (m *moduleValue) Hash() (uint32, error) { return 0, errUnhashable }

// AttrNames implements starlark.HasAttrs.
func (m *moduleValue) AttrNames() []string { return names(m.members) }

// Attr implements starlark.HasAttrs.
func (m *moduleValue) Attr(name string) (starlark.Value, error) {
	if v := m.members[name]; v != nil {
		return v, nil
	}
	return nil, starlark.NoSuchAttrError(fmt.Sprintf("%s has no .%s; it has %s", m.name, name,
		strings.Join(m.AttrNames(), ", ")))
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
