package changes

import (
	"maps"
	"reflect"
)

// A set is a set of paths.
type set map[string]bool

// setOf returns the set of some paths.
func setOf(paths ...string) set { return set{}.union(nil, paths...) }

// union returns a set with those of another set, and more paths, in it.
func (s set) union(other set, paths ...string) set {
	larger := make(set, len(s)+len(other)+len(paths))
	maps.Copy(larger, s)
	maps.Copy(larger, other)
	for _, path := range paths {
		larger[path] = true
	}
	return larger
}

// common returns the set of what is in both sets.
func (s set) common(other set) set {
	both := set{}
	for path := range s {
		if s[path] && other[path] {
			both[path] = true
		}
	}
	return both
}

// minus returns a set without a path.
func (s set) minus(path string) set {
	smaller := maps.Clone(s)
	delete(smaller, path)
	return smaller
}

// mixed returns the machine that is as a but for the differences in the set, in
// which it is as b. It may share what is equal with both.
func mixed(a, b Machine, taken set) Machine {
	return mix("", reflect.ValueOf(a), reflect.ValueOf(b), taken).Interface().(Machine)
}

// mix returns a value of the same type as a and b. Where these differ it
// decides as differences does, or a path would not be found.
func mix(path string, a, b reflect.Value, taken set) reflect.Value {
	chosen := a
	if taken[path] {
		chosen = b
	}
	x, y := concrete(a), concrete(b)
	if !x.IsValid() || !y.IsValid() || x.Type() != y.Type() {
		return chosen
	}
	switch x.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map:
		return wrap(mixParts(path, x, y, taken), a.Type())
	default:
		return chosen
	}
}

func mixParts(path string, a, b reflect.Value, taken set) reflect.Value {
	made := reflect.New(a.Type()).Elem()
	switch {
	case a.Kind() == reflect.Slice && !a.IsNil():
		made.Set(reflect.MakeSlice(a.Type(), 0, max(a.Len(), b.Len())))
	case a.Kind() == reflect.Map && !a.IsNil():
		made.Set(reflect.MakeMap(a.Type()))
	}
	field := 0
	for p := range parts(path, a, b) {
		var v reflect.Value
		switch {
		case p.a.IsValid() && p.b.IsValid():
			v = mix(p.path, p.a, p.b, taken)
		case p.a.IsValid() != taken[p.path]:
			v = p.a
			if !v.IsValid() {
				v = p.b
			}
		default:
			continue // not there any more, or not there yet
		}
		switch a.Kind() {
		case reflect.Struct:
			made.Field(field).Set(v)
			field++
		case reflect.Slice:
			made.Set(reflect.Append(made, v))
		default:
			if made.IsNil() {
				made.Set(reflect.MakeMap(a.Type()))
			}
			made.SetMapIndex(p.key, v)
		}
	}
	return made
}

// wrap puts a value into what concrete took it out of.
func wrap(v reflect.Value, outer reflect.Type) reflect.Value {
	if outer.Kind() != reflect.Pointer {
		return v // what is wanted as an interface is assignable
	}
	pointer := reflect.New(v.Type())
	pointer.Elem().Set(v)
	return pointer
}
