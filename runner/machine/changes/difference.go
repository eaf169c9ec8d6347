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

// differencesBelow returns the differences of two values below a path, in the order of the fields. A difference is a
// single value, or an item of a list or a section that only one of them has. Lists are compared by index.
func differencesBelow(path string, a, b reflect.Value) []status.Change {
	x, y := concreteValue(a), concreteValue(b)
	switch {
	case !x.IsValid() && !y.IsValid():
		if isGiven(a) == isGiven(b) {
			return nil
		}
	case !x.IsValid() || !y.IsValid() || x.Type() != y.Type():
	case x.Kind() == reflect.Struct || x.Kind() == reflect.Map || x.Kind() == reflect.Slice:
		var all []status.Change
		for p := range partsOf(path, x, y) {
			all = append(all, differencesBelow(p.path, p.a, p.b)...)
		}
		return all
	case x.Interface() == y.Interface():
		return nil
	}
	change := status.Change{Path: path, CurrentValue: plainValue(a), DesiredValue: plainValue(b), Operation: replace}
	switch {
	case !isGiven(a):
		change.Operation, change.CurrentValue = add, nil
	case !isGiven(b):
		change.Operation, change.DesiredValue = remove, nil
	}
	return []status.Change{change}
}

// concreteValue follows pointers and interfaces. It returns the zero Value for nil.
func concreteValue(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// isGiven reports whether a value is present. The zero value of a field counts as absent, except for booleans and
// for values behind pointers, where nil means absent.
func isGiven(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Bool, reflect.Struct, reflect.Interface:
		return true
	default:
		return !v.IsZero()
	}
}

// A part is the same part of two values. A Value is zero if the part is absent there.
type part struct {
	path string
	key  reflect.Value // of a map
	a, b reflect.Value
}

// partsOf returns the parts of two values of the same type. A part may be absent in one value. Fields are in their
// order, keys are sorted, and items are ordered by index.
func partsOf(path string, a, b reflect.Value) iter.Seq[part] {
	return func(yield func(part) bool) {
		switch kind := a.Type(); kind.Kind() {
		case reflect.Struct:
			for i := range kind.NumField() {
				if !yield(part{path: joinPath(path, kind.Field(i).Tag.Get("yaml")), a: a.Field(i), b: b.Field(i)}) {
					return
				}
			}
		case reflect.Slice:
			for i := range max(a.Len(), b.Len()) {
				if !yield(part{path: path + "[" + strconv.Itoa(i) + "]", a: itemAt(a, i), b: itemAt(b, i)}) {
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
				if !yield(part{path: joinPath(path, name), key: key, a: a.MapIndex(key), b: b.MapIndex(key)}) {
					return
				}
			}
		default: // has no parts
		}
	}
}

// itemAt returns an item of a list, or the zero Value if it does not exist.
func itemAt(list reflect.Value, i int) reflect.Value {
	if i < list.Len() {
		return list.Index(i)
	}
	return reflect.Value{}
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// plainValue returns a value as it would be written in the configuration: strings, numbers, booleans, lists of them,
// and maps without absent values. Sizes have a unit, and web addresses have no password.
func plainValue(v reflect.Value) any {
	v = concreteValue(v)
	if !v.IsValid() {
		return nil
	}
	if size, ok := v.Interface().(vmspec.Bytes); ok {
		return size.String()
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		section := map[string]any{}
		for p := range partsOf("", v, v) {
			if !p.a.IsZero() {
				section[p.path] = plainValue(p.a)
			}
		}
		return section
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plainValue(v.Index(i))
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

// valueText returns a value as text for users.
func valueText(v any) string { return fmt.Sprint(plainValue(reflect.ValueOf(v))) }
