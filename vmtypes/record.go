package vmtypes

import (
	"fmt"
	"reflect"
	"sort"
	"sync"

	"go.starlark.net/starlark"

	"vmop/vmspec"
)

// record is a Go struct in Starlark: read-only, its attributes named by the
// yaml tags, so that vm.<key> is the key of the configuration file.
type record struct {
	name   string
	names  []string // sorted
	values []starlark.Value
}

var _ starlark.HasAttrs = (*record)(nil)

func (r *record) String() string        { return "<" + r.name + ">" }
func (r *record) Type() string          { return r.name }
func (r *record) Freeze()               {} // its values are frozen when made
func (r *record) Truth() starlark.Bool  { return true }
func (r *record) Hash() (uint32, error) { return 0, errUnhashable }

// AttrNames implements starlark.HasAttrs.
func (r *record) AttrNames() []string { return r.names }

// Attr implements starlark.HasAttrs.
func (r *record) Attr(name string) (starlark.Value, error) {
	if i := sort.SearchStrings(r.names, name); i < len(r.names) && r.names[i] == name {
		return r.values[i], nil
	}
	return nil, nil // the interpreter names the attribute and suggests
}

// records converts Go values; it remembers the shape of each struct type. It can
// be used by several goroutines at once.
type records struct{ shapes sync.Map } // reflect.Type to *shape

// A shape is the attributes of a struct type: their names, sorted, and the
// numbers of the fields.
type shape struct {
	names  []string
	fields []int
}

// value returns v, a struct, as a record called name.
func (rs *records) value(name string, v any) starlark.Value {
	return rs.convert(name, reflect.ValueOf(v))
}

// vm returns the vm section of a VM of a type, or an *OptionsError.
func (rs *records) vm(vmType string, spec vmspec.Spec, d declared, files Files) (starlark.Value, error) {
	options, faults := d.value(rs, vmType, spec.Options, files)
	if len(faults) > 0 {
		return nil, &OptionsError{Type: vmType, Faults: faults}
	}
	spec.Options = nil
	vm := rs.convert("vm", reflect.ValueOf(spec)).(*record)
	vm.values[sort.SearchStrings(vm.names, optionsGlobal)] = options
	return vm, nil
}

func (rs *records) shape(t reflect.Type) *shape {
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

// hidden is the tag vmtype of fields that are no attributes: VM types have no use for them.
const hidden = "-"

// attrName is the yaml tag, or the field's name with a small first letter.
func attrName(f reflect.StructField) string {
	if tag := f.Tag.Get("yaml"); tag != "" {
		return tag
	}
	return string(f.Name[0]|0x20) + f.Name[1:]
}

// scalar returns nil for values that contain others.
func scalar(v reflect.Value) starlark.Value {
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

// convert names the records in v after the path that leads to them.
func (rs *records) convert(name string, v reflect.Value) starlark.Value {
	if value := scalar(v); value != nil {
		return value
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return starlark.None
		}
		return rs.convert(name, v.Elem())
	case reflect.Slice:
		t := make(starlark.Tuple, v.Len())
		for i := range t {
			t[i] = rs.convert(name, v.Index(i))
		}
		return t
	case reflect.Map:
		return rs.dict(name, v)
	case reflect.Struct:
		s := rs.shape(v.Type())
		r := &record{name: name, names: s.names, values: make([]starlark.Value, len(s.fields))}
		for i, f := range s.fields {
			field := v.Field(f)
			if r.values[i] = scalar(field); r.values[i] == nil {
				r.values[i] = rs.convert(name+"."+s.names[i], field)
			}
		}
		return r
	}
	// Unreachable for the types of vmspec, which a test converts all.
	return starlark.String(fmt.Sprint(v))
}

// dict converts a map with keys in sorted order, so that types stay pure.
func (rs *records) dict(name string, v reflect.Value) starlark.Value {
	d := starlark.NewDict(v.Len())
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return fmt.Sprint(keys[i]) < fmt.Sprint(keys[j]) })
	for _, k := range keys {
		key := rs.convert(name, k)
		if err := d.SetKey(key, rs.convert(name, v.MapIndex(k))); err != nil {
			continue // a key that Starlark cannot hash, say a float NaN, is not visible
		}
	}
	d.Freeze()
	return d
}
