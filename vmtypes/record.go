package vmtypes

import (
	"fmt"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"vmop/vmspec"
)

// record is a Go struct in Starlark. It is read-only. The yaml tags are the names of its attributes, so that
// vm.<key> is a key of the configuration file.
type record struct {
	name   string   // its path: "vm.drives[0]"
	names  []string // sorted
	values []starlark.Value
}

var _ starlark.HasAttrs = (*record)(nil)

func (r *record) String() string        { return "<" + r.name + ">" }
func (r *record) Type() string          { return withoutIndices(r.name) }
func (r *record) Freeze()               {} // its values were frozen at creation
func (r *record) Truth() starlark.Bool  { return true }
func (r *record) Hash() (uint32, error) { return 0, errUnhashable }

// withoutIndices removes the indices from a path: "vm.drives[0]" becomes "vm.drives".
func withoutIndices(path string) string {
	if !strings.Contains(path, "[") {
		return path
	}
	return regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(path, "")
}

// AttrNames implements starlark.HasAttrs.
func (r *record) AttrNames() []string { return r.names }

// Attr implements starlark.HasAttrs.
func (r *record) Attr(name string) (starlark.Value, error) {
	if i := sort.SearchStrings(r.names, name); i < len(r.names) && r.names[i] == name {
		return r.values[i], nil
	}
	return nil, nil // the interpreter reports the attribute, with a suggestion
}

// records converts Go values and caches the shape of each struct type. Several goroutines can use it
// concurrently.
type records struct{ shapes sync.Map } // reflect.Type to *shape

// A shape contains the attributes of a struct type: their sorted names, and the numbers of the fields.
type shape struct {
	names  []string
	fields []int
}

// recordOf returns the struct v as a record with a name.
func (rs *records) recordOf(name string, v any) starlark.Value {
	return rs.convertValue(name, reflect.ValueOf(v))
}

// vmRecord returns the vm section for a type. options is the value of vm.options.
func (rs *records) vmRecord(spec vmspec.Spec, options starlark.Value) *machineRecord {
	spec.Options = nil
	vm := &machineRecord{*rs.convertValue("vm", reflect.ValueOf(spec)).(*record)}
	vm.values[sort.SearchStrings(vm.names, optionsGlobal)] = options
	return vm
}

func (rs *records) shapeOf(t reflect.Type) *shape {
	if s, ok := rs.shapes.Load(t); ok {
		return s.(*shape)
	}
	s := &shape{}
	fields := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("vmtype") != hidden {
			s.names = append(s.names, attrName(f))
			fields[attrName(f)] = i
		}
	}
	sort.Strings(s.names)
	for _, name := range s.names {
		s.fields = append(s.fields, fields[name])
	}
	rs.shapes.Store(t, s)
	return s
}

// hidden is the value of the tag vmtype for fields that are hidden from VM types, because types do not need them.
const hidden = "-"

// attrName returns the yaml tag, or the field's name with a lower-case first letter.
func attrName(f reflect.StructField) string {
	if tag := f.Tag.Get("yaml"); tag != "" {
		return tag
	}
	return string(f.Name[0]|0x20) + f.Name[1:]
}

// scalarOf converts a simple value. It returns nil for lists, maps and structs.
func scalarOf(v reflect.Value) starlark.Value {
	switch v.Kind() {
	case reflect.Bool:
		return starlark.Bool(v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		return starlark.MakeInt64(v.Int())
	case reflect.Float64:
		return starlark.Float(v.Float())
	case reflect.Uint64:
		return starlark.MakeUint64(v.Uint())
	case reflect.String:
		return starlark.String(v.String())
	}
	return nil
}

// convertValue converts a value. The name of each record is its path.
func (rs *records) convertValue(name string, v reflect.Value) starlark.Value {
	if value := scalarOf(v); value != nil {
		return value
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return starlark.None
		}
		return rs.convertValue(name, v.Elem())
	case reflect.Slice:
		t := make(starlark.Tuple, v.Len())
		for i := range t {
			t[i] = rs.convertItem(name, i, v.Index(i))
		}
		return t
	case reflect.Map:
		return rs.convertMap(name, v)
	case reflect.Struct:
		s := rs.shapeOf(v.Type())
		r := &record{name: name, names: s.names, values: make([]starlark.Value, len(s.fields))}
		for i, f := range s.fields {
			field := v.Field(f)
			if r.values[i] = scalarOf(field); r.values[i] == nil {
				r.values[i] = rs.convertValue(name+"."+s.names[i], field)
			}
		}
		return r
	}
	// Unreachable for the types of vmspec: a test converts each of these types.
	return starlark.String(fmt.Sprint(v))
}

// convertItem converts an item of a list. Only records need a path.
func (rs *records) convertItem(name string, i int, v reflect.Value) starlark.Value {
	if value := scalarOf(v); value != nil {
		return value
	}
	return rs.convertValue(name+"["+strconv.Itoa(i)+"]", v)
}

// convertMap converts a map, in sorted order of the keys, so that types stay pure.
func (rs *records) convertMap(name string, v reflect.Value) starlark.Value {
	d := starlark.NewDict(v.Len())
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return fmt.Sprint(keys[i]) < fmt.Sprint(keys[j]) })
	for _, k := range keys {
		key := rs.convertValue(name, k)
		if err := d.SetKey(key, rs.convertValue(name, v.MapIndex(k))); err != nil {
			continue // skip keys that Starlark cannot hash, such as a float NaN
		}
	}
	d.Freeze()
	return d
}
