package reference

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"

	"vmop/vmspec"
)

// A Key is a key of the configuration, and a field of vm.
type Key struct {
	// Path is the path of the key. "vm.network[].mac" is the key mac of each item in the list network.
	Path string
	// Type is the type of the field in Starlark.
	Type string
	// Default is the value of an absent key if it is always the same. Note explains other defaults, or the meaning of
	// an absent key.
	Default, Note string
	// Unit is the unit of the value; "" for names and booleans.
	Unit string
	// Choices are the allowed words; empty if the value is not limited to a set of words.
	Choices []string
	// Doc is the description in docs/reference/configuration.md.
	Doc string

	field reflect.Type
}

// Name returns the last word of the path.
func (k Key) Name() string {
	path := strings.TrimSuffix(k.Path, "[]")
	return path[strings.LastIndex(path, ".")+1:]
}

// meanings contains the descriptions in docs/reference/configuration.md: one line per key, with the key and its
// description. A test in docs writes the file and keeps it current.
//
//go:embed meanings.txt
var meanings string

// Meaning returns the description of a key in docs/reference/configuration.md. Examples of keys are "vmType" and
// "vm.network[].mac".
func Meaning(path string) string {
	for line := range strings.Lines(meanings) {
		if key, meaning, ok := strings.Cut(line, ": "); ok && key == path {
			return strings.TrimSpace(meaning)
		}
	}
	return ""
}

// VM returns the fields of vm. The fields of a section follow the section.
func VM() []Key {
	defaults := map[string]vmspec.Default{}
	for _, d := range vmspec.Defaults() {
		defaults[d.Path] = d
	}
	return keysOf("vm", reflect.ValueOf(fullSpec()), vmspec.OptionalSections(), defaults)
}

// Below returns the keys directly below a section: "vm", "vm.display", "vm.network[]".
func Below(path string, keys []Key) []Key {
	var found []Key
	for _, k := range keys {
		if rest, ok := strings.CutPrefix(k.Path, path+"."); ok && !strings.Contains(rest, ".") {
			found = append(found, k)
		}
	}
	return found
}

// fullSpec returns a spec with one item of everything that can be absent. Fields that are nil in it are None for a
// type.
func fullSpec() vmspec.Spec {
	return vmspec.Spec{
		Kernel: &vmspec.Kernel{},
		Network: []vmspec.Network{{
			Ports: []vmspec.PortForward{{}}, AllPorts: &vmspec.AllPorts{Keep: []int{0}},
			Lease: &vmspec.Lease{
				Nameservers: &vmspec.Nameservers{Addresses: []string{""}, Search: []string{""}},
				Routes:      []vmspec.Route{{}},
			},
			Filter: new(false),
		}},
		Drives:  []vmspec.Drive{{Limits: &vmspec.DiskLimits{}}},
		Display: &vmspec.Display{Spice: &vmspec.Spice{}, VNC: &vmspec.VNC{}},
	}.WithDefaults()
}

// keysOf returns the keys of a section. optional are the paths of sections that can be absent.
func keysOf(path string, section reflect.Value, optional []string, defaults map[string]vmspec.Default) []Key {
	var keys []Key
	for i := range section.NumField() {
		field := section.Type().Field(i)
		if field.Tag.Get("vmtype") == "-" {
			continue
		}
		at := path + "." + field.Tag.Get("yaml")
		d := defaults[at]
		value := section.Field(i)
		keys = append(keys, Key{
			Path: at, Type: typeOf(value, slices.Contains(optional, at)), Default: d.Value, Note: d.Note, Unit: d.Unit,
			Choices: vmspec.Choices(at), Doc: Meaning(at), field: field.Type,
		})
		if value.Kind() == reflect.Slice {
			at, value = at+"[]", value.Index(0)
		}
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		if value.Kind() == reflect.Struct {
			keys = append(keys, keysOf(at, value, optional, defaults)...)
		}
	}
	return keys
}

// typeOf returns the Starlark type of a field. The type of an optional section includes None.
func typeOf(value reflect.Value, optional bool) string {
	switch t := value.Type(); t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Int, reflect.Int64:
		return "int"
	case reflect.String:
		return "str"
	case reflect.Slice:
		element := t.Elem().Name()
		if t.Elem().Kind() == reflect.String {
			element = "str"
		}
		return "tuple[" + element + ", ...]"
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Struct {
			return orNone(t.Elem().Name(), optional)
		}
		return orNone(typeOf(reflect.Zero(t.Elem()), false), value.IsNil())
	default:
		return "Options"
	}
}

func orNone(name string, none bool) string {
	if none {
		return name + " | None"
	}
	return name
}
