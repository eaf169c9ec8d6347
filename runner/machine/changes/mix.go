package changes

import (
	"maps"
	"reflect"
)

// A set is a set of paths.
type set map[string]bool

// setOf returns the set of some paths.
func setOf(paths ...string) set { return set{}.unionWith(nil, paths...) }

// unionWith returns a new set with the paths of both sets and more paths.
func (s set) unionWith(other set, paths ...string) set {
	larger := make(set, len(s)+len(other)+len(paths))
	maps.Copy(larger, s)
	maps.Copy(larger, other)
	for _, path := range paths {
		larger[path] = true
	}
	return larger
}

// commonWith returns the paths that are in both sets.
func (s set) commonWith(other set) set {
	both := set{}
	for path := range s {
		if s[path] && other[path] {
			both[path] = true
		}
	}
	return both
}

// withoutPath returns the set without a path.
func (s set) withoutPath(path string) set {
	smaller := maps.Clone(s)
	delete(smaller, path)
	return smaller
}

// mixMachines returns machine a, but with the values of b at the paths in taken. The result may share memory with both.
func mixMachines(a, b Machine, taken set) Machine {
	return mixValues("", reflect.ValueOf(a), reflect.ValueOf(b), taken).Interface().(Machine)
}

// mixValues returns a value of the same type as a and b. It must split values in the same way as differencesBelow, so
// that every path is found.
func mixValues(path string, a, b reflect.Value, taken set) reflect.Value {
	chosen := a
	if taken[path] {
		chosen = b
	}
	x, y := concreteValue(a), concreteValue(b)
	if !x.IsValid() || !y.IsValid() || x.Type() != y.Type() {
		return chosen
	}
	switch x.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map:
		return wrapValue(mixParts(path, x, y, taken), a.Type())
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
	for p := range partsOf(path, a, b) {
		var v reflect.Value
		switch {
		case p.a.IsValid() && p.b.IsValid():
			v = mixValues(p.path, p.a, p.b, taken)
		case p.a.IsValid() != taken[p.path]:
			v = p.a
			if !v.IsValid() {
				v = p.b
			}
		default:
			continue // removed, or not added yet
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

// wrapValue reverses concrete.
func wrapValue(v reflect.Value, outer reflect.Type) reflect.Value {
	if outer.Kind() != reflect.Pointer {
		return v // v is assignable to an interface
	}
	pointer := reflect.New(v.Type())
	pointer.Elem().Set(v)
	return pointer
}
