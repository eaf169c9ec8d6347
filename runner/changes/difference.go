package changes

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"vmop/runner/status"
	"vmop/vmspec"
)

// The operations of a change.
const (
	add     = "add"
	remove  = "remove"
	replace = "replace"
)

// differences returns what two values below a path differ in, in the order of
// the fields: a single value, an item of a list that only one of them has, or a
// section that only one of them has. Lists are compared by index.
func differences(path string, a, b reflect.Value) []status.Change {
	x, y := concrete(a), concrete(b)
	switch {
	case !x.IsValid() && !y.IsValid():
		if given(a) == given(b) {
			return nil
		}
	case !x.IsValid() || !y.IsValid() || x.Type() != y.Type():
	case x.Kind() == reflect.Struct || x.Kind() == reflect.Map || x.Kind() == reflect.Slice:
		var all []status.Change
		for p := range parts(path, x, y) {
			all = append(all, differences(p.path, p.a, p.b)...)
		}
		return all
	case x.Interface() == y.Interface():
		return nil
	}
	change := status.Change{Path: path, CurrentValue: value(a), DesiredValue: value(b), Operation: replace}
	switch {
	case !given(a):
		change.Operation, change.CurrentValue = add, nil
	case !given(b):
		change.Operation, change.DesiredValue = remove, nil
	}
	return []status.Change{change}
}

// concrete follows pointers and interfaces. What is nil becomes the zero Value.
func concrete(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// given reports whether a value is there: the zero value of a field means that it
// is not, but for a switch, and for what a pointer tells from nothing.
func given(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Bool, reflect.Struct, reflect.Interface:
		return true
	default:
		return !v.IsZero()
	}
}

// A part is the same part of two values; the zero Value if one has not got it.
type part struct {
	path string
	key  reflect.Value // of a map
	a, b reflect.Value
}

// parts returns the parts of two values of the same type, of which one may be
// absent: fields in their order, keys sorted, items by index.
func parts(path string, a, b reflect.Value) iter.Seq[part] {
	return func(yield func(part) bool) {
		switch kind := a.Type(); kind.Kind() {
		case reflect.Struct:
			for i := range kind.NumField() {
				if !yield(part{path: join(path, kind.Field(i).Tag.Get("yaml")), a: a.Field(i), b: b.Field(i)}) {
					return
				}
			}
		case reflect.Slice:
			for i := range max(a.Len(), b.Len()) {
				if !yield(part{path: path + "[" + strconv.Itoa(i) + "]", a: item(a, i), b: item(b, i)}) {
					return
				}
			}
		case reflect.Map:
			keys := map[string]reflect.Value{}
			for _, key := range append(a.MapKeys(), b.MapKeys()...) {
				keys[key.String()] = key
			}
			for _, name := range slices.Sorted(maps.Keys(keys)) {
				key := keys[name]
				if !yield(part{path: join(path, name), key: key, a: a.MapIndex(key), b: b.MapIndex(key)}) {
					return
				}
			}
		default: // has no parts
		}
	}
}

// item returns an item of a list; the zero Value if there is none.
func item(list reflect.Value, i int) reflect.Value {
	if i < list.Len() {
		return list.Index(i)
	}
	return reflect.Value{}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// value returns a value as it would be written in the configuration: texts,
// numbers and switches, lists of them, and maps without what is absent. Sizes
// have their unit, and web addresses no password.
func value(v reflect.Value) any {
	v = concrete(v)
	if !v.IsValid() {
		return nil
	}
	if size, ok := v.Interface().(vmspec.Bytes); ok {
		return size.String()
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		section := map[string]any{}
		for p := range parts("", v, v) {
			if !p.a.IsZero() {
				section[p.path] = value(p.a)
			}
		}
		return section
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = value(v.Index(i))
		}
		return list
	case reflect.String:
		bare, _, _ := vmspec.Credentials(v.String())
		return bare
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int64:
		return v.Int()
	default:
		return v.Interface()
	}
}

// shown returns a value as people read it.
func shown(v any) string { return fmt.Sprint(value(reflect.ValueOf(v))) }
