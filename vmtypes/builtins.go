package vmtypes

import (
	"fmt"
	"sort"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// Predeclared returns the names that modules can use in addition to Starlark's built-in names.
func Predeclared() starlark.StringDict {
	return starlark.StringDict{
		"option":    starlark.NewBuiltin("option", optionBuiltin),
		"part":      starlark.NewBuiltin("part", partBuiltin),
		"combine":   starlark.NewBuiltin("combine", combineBuiltin),
		"change":    starlark.NewBuiltin("change", changeBuiltin),
		"refuse":    starlark.NewBuiltin("refuse", refuseBuiltin),
		"replace":   starlark.NewBuiltin("replace", replaceBuiltin),
		"process":   starlark.NewBuiltin("process", processBuiltin),
		"tap":       starlark.NewBuiltin("tap", tapBuiltin),
		"listen":    starlark.NewBuiltin("listen", listenBuiltin),
		"copy_once": starlark.NewBuiltin("copy_once", copyOnce),
		"access":    starlark.NewBuiltin("access", accessBuiltin),
		"hotplug":   hotplugModule(),
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
func (m *moduleValue) AttrNames() []string { return sortedNames(m.members) }

// Attr implements starlark.HasAttrs.
func (m *moduleValue) Attr(name string) (starlark.Value, error) {
	if v := m.members[name]; v != nil {
		return v, nil
	}
	return nil, starlark.NoSuchAttrError(fmt.Sprintf("%s has no .%s; it has %s", m.name, name,
		strings.Join(m.AttrNames(), ", ")))
}

// sortedNames returns the names in all dicts, sorted.
func sortedNames(dicts ...starlark.StringDict) []string {
	var list []string
	for _, d := range dicts {
		for name := range d {
			list = append(list, name)
		}
	}
	sort.Strings(list)
	return list
}
