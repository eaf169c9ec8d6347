package vmspec

import (
	"reflect"
	"slices"
	"strings"
)

// OptionalSections returns the paths of the sections that a VM may lack even with all defaults, such as "vm.display"
// and "vm.network[].lease", sorted. For a VM type, such a section is None.
func OptionalSections() []string {
	paths := optionalSections("vm", reflect.ValueOf(Spec{}.WithDefaults()))
	slices.Sort(paths)
	return paths
}

// optionalSections returns the optional sections below a section. The section has its default.
func optionalSections(path string, section reflect.Value) []string {
	var paths []string
	for i := range section.NumField() {
		field := section.Type().Field(i)
		if field.Tag.Get("vmtype") == "-" {
			continue
		}
		at, value := path+"."+field.Tag.Get("yaml"), section.Field(i)
		kind := field.Type
		if kind.Kind() == reflect.Slice {
			at, kind, value = at+"[]", kind.Elem(), reflect.Zero(kind.Elem())
		}
		if kind.Kind() == reflect.Pointer && kind.Elem().Kind() == reflect.Struct {
			if value.IsNil() {
				paths = append(paths, at)
			}
			kind = kind.Elem()
			value = reflect.Zero(kind)
		}
		if kind.Kind() == reflect.Struct {
			paths = append(paths, optionalSections(at, value)...)
		}
	}
	return paths
}

// AbsentSection returns the explanation of None for a path, such as "vm.display is None if the VM has no display; test
// it first". It returns "" for paths that are not in OptionalSections. Indices may be present: "vm.network[0].lease".
func AbsentSection(path string) string {
	if !slices.Contains(OptionalSections(), withoutIndices(path)) {
		return ""
	}
	dot := strings.LastIndexByte(path, '.')
	owner, name := path[:dot], path[dot+1:]
	if owner == "vm" {
		owner = "VM"
	}
	owner, _, _ = strings.Cut(owner[strings.LastIndexByte(owner, '.')+1:], "[")
	return path + " is None if the " + owner + " has no " + name + "; test it first"
}
