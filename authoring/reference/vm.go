package reference

import (
	_ "embed"
	"reflect"
	"strings"

	"vmop/vmspec"
)

// A Key is one of the configuration, and of vm.
type Key struct {
	// Path is "vm.network[].mac": of each item of the list network, mac.
	Path string
	// Type is that of the field in Starlark.
	Type string
	// Default is what is used when the key is absent, if that is always the
	// same; Note says how it is found, or what absence means.
	Default, Note string
	// Unit in which it counts; "" for names and switches.
	Unit string
	// Choices are what it can be; none if it is not limited to a few words.
	Choices []string
	// Doc is what docs/reference/configuration.md says of it.
	Doc string

	field reflect.Type
}

// Name returns the last word of the path.
func (k Key) Name() string {
	path := strings.TrimSuffix(k.Path, "[]")
	return path[strings.LastIndex(path, ".")+1:]
}

// meanings are the words of docs/reference/configuration.md, a key and its meaning on a
// line. A test in docs writes it, and holds it current.
//
//go:embed meanings.txt
var meanings string

// Meaning returns what docs/reference/configuration.md says of a key: "vmType",
// "vm.network[].mac".
func Meaning(path string) string {
	for line := range strings.Lines(meanings) {
		if key, meaning, ok := strings.Cut(line, ": "); ok && key == path {
			return strings.TrimSpace(meaning)
		}
	}
	return ""
}

// VM returns the fields of vm, with all that belongs to a section behind it.
func VM() []Key {
	defaults := map[string]vmspec.Default{}
	for _, d := range vmspec.Defaults() {
		defaults[d.Path] = d
	}
	return keysOf("vm", reflect.ValueOf(fullSpec()), reflect.ValueOf(vmspec.Spec{}.WithDefaults()), defaults)
}

// Below returns the keys directly in a section: below "vm", "vm.display",
// "vm.network[]".
func Below(path string, keys []Key) []Key {
	var found []Key
	for _, k := range keys {
		if rest, ok := strings.CutPrefix(k.Path, path+"."); ok && !strings.Contains(rest, ".") {
			found = append(found, k)
		}
	}
	return found
}

// fullSpec is a spec that has one of everything that can be absent, with the
// defaults: what is nil in it is None to a type.
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
		Drives:  []vmspec.Drive{{}},
		Display: &vmspec.Display{Spice: &vmspec.Spice{}, VNC: &vmspec.VNC{}},
	}.WithDefaults()
}

// keysOf returns the keys of a section; absent is the section of a VM whose
// configuration says nothing.
func keysOf(path string, section, absent reflect.Value, defaults map[string]vmspec.Default) []Key {
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
			Path: at, Type: typeOf(value, absent.Field(i)), Default: d.Value, Note: d.Note, Unit: d.Unit,
			Choices: vmspec.Choices(at), Doc: Meaning(at), field: field.Type,
		})
		if value.Kind() == reflect.Slice {
			at, value = at+"[]", value.Index(0)
		}
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		if value.Kind() == reflect.Struct {
			keys = append(keys, keysOf(at, value, reflect.Zero(value.Type()), defaults)...)
		}
	}
	return keys
}

// typeOf returns how a field looks to a type. A section is None where its
// absence means something.
func typeOf(value, absent reflect.Value) string {
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
			return orNone(t.Elem().Name(), absent.IsNil())
		}
		element := reflect.Zero(t.Elem())
		return orNone(typeOf(element, element), value.IsNil())
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
