package yamlfile

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"vmop/printable"
	"vmop/spelling"
)

// Bounds of what aliases may do to a decoder. Without aliases the size of the
// file is bound enough.
const (
	deepest     = 64
	mostAliased = 100_000
)

// decode fills to from n. Null counts as absent, except that it makes a list an
// empty one.
func (r *Reader) decode(path string, key, n *yaml.Node, to reflect.Value) {
	r.doc.at[path] = placeOf(key, n)
	n, leave := r.enter(path, n)
	if n == nil {
		return
	}
	defer leave()
	switch {
	case to.Type() == reflect.TypeFor[yaml.Node]():
		to.Set(reflect.ValueOf(*n))
	case to.Kind() == reflect.Interface:
		if value := r.freeValue(path, n); value != nil {
			to.Set(reflect.ValueOf(value))
		}
	case n.Kind == yaml.ScalarNode && !knownTag(n):
		r.refuse(n, path, "the tag "+n.Tag+" means nothing here", "leave it out")
	case isEmpty(n):
		if to.Kind() == reflect.Slice {
			to.Set(reflect.MakeSlice(to.Type(), 0, 0))
		}
	case to.Kind() == reflect.Pointer:
		value := reflect.New(to.Type().Elem())
		r.fill(path, n, value.Elem())
		to.Set(value)
	default:
		r.fill(path, n, to)
	}
}

// fill fills to from a node that is neither null nor an alias.
func (r *Reader) fill(path string, n *yaml.Node, to reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		fields := fieldsOf(to)
		short := slices.IndexFunc(fields, func(f field) bool { return f.scalar })
		if short >= 0 && n.Kind == yaml.ScalarNode {
			r.decode(join(path, fields[short].key), nil, n, fields[short].value)
		} else if r.wants(path, n, yaml.MappingNode, "a mapping", example(to)) {
			r.structure(path, n, to)
		}
	case reflect.Slice:
		if r.wants(path, n, yaml.SequenceNode, "a list", "") {
			r.list(path, n, to)
		}
	case reflect.Map:
		if r.wants(path, n, yaml.MappingNode, "a mapping", "") {
			to.Set(reflect.ValueOf(r.free(path, n)))
		}
	default:
		if message, hint := setScalar(to, n); message != "" {
			r.refuse(n, path, message, hint)
		}
	}
}

// example returns a hint for a mapping whose type has a method Example.
func example(to reflect.Value) string {
	if e, ok := to.Interface().(interface{ Example() string }); ok {
		return "such as " + e.Example()
	}
	return ""
}

func (r *Reader) wants(path string, n *yaml.Node, kind yaml.Kind, name, hint string) bool {
	if n.Kind != kind {
		r.refuse(n, path, "got "+describe(n)+", want "+name, hint)
	}
	return n.Kind == kind
}

func (r *Reader) list(path string, n *yaml.Node, to reflect.Value) {
	to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		element := path + "[" + strconv.Itoa(i) + "]"
		if isEmpty(item) {
			r.refuse(item, element, "an item without a value", "")
			continue
		}
		r.decode(element, nil, item, to.Index(i))
	}
}

// A field is one that a mapping can set: by its key, from the tag yaml.
type field struct {
	key    string
	value  reflect.Value
	least  string // the tag min
	former bool   // the tag former: known, but not to be used any more
	scalar bool   // the tag scalar: a scalar in place of the mapping is its value
}

// fieldsOf lists the fields of a struct, those of an embedded one included.
func fieldsOf(v reflect.Value) []field {
	fields := make([]field, 0, v.NumField())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch key := f.Tag.Get("yaml"); {
		case key == ",inline":
			fields = append(fields, fieldsOf(v.Field(i))...)
		case key != "" && key != "-":
			_, former := f.Tag.Lookup("former")
			_, scalar := f.Tag.Lookup("scalar")
			fields = append(fields, field{key, v.Field(i), f.Tag.Get("min"), former, scalar})
		}
	}
	return fields
}

func (r *Reader) structure(path string, n *yaml.Node, to reflect.Value) {
	fields := fieldsOf(to)
	for _, e := range r.entries(path, n) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.key.Value })
		if i < 0 {
			r.unknownKey(path, e.key, fields)
			continue
		}
		f := fields[i]
		at := r.below(path, f.key)
		before := len(r.doubtful)
		r.decode(at, e.key, e.value, f.value)
		if len(r.doubtful) == before && f.least != "" && !isEmpty(e.value) {
			r.least(at, e.value, f)
		}
	}
}

// least wants a number to be what the field's tag min demands. It is checked
// here because a spec can't tell a given 0 from an absent key.
func (r *Reader) least(path string, n *yaml.Node, f field) {
	least, err := strconv.ParseInt(f.least, 10, 64)
	if err != nil {
		panic("the tag min of " + path + " is no number: " + f.least)
	}
	if f.value.Int() < least {
		hint := fmt.Sprintf("at least %d; without the key its default is used", least)
		r.refuse(n, path, fmt.Sprintf("can't be %d", f.value.Int()), hint)
	}
}

// unknownKey notes a key that is none, and which may have been meant.
func (r *Reader) unknownKey(path string, key *yaml.Node, fields []field) {
	if len(r.faults) == mostFaults {
		r.more++
		return
	}
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		if !f.former {
			names = append(names, f.key)
		}
	}
	var meant, hint string
	if meant, hint = r.renamed(join(path, key.Value)); meant != "" {
		hint = "it is called " + meant + " here"
	} else if hint != "" { // it is said what to do
	} else if near := spelling.Nearest(key.Value, names); near != "" {
		meant, hint = r.below(path, near), "did you mean "+near+"?"
	} else if meant = r.elsewhere(key.Value); meant != "" && parent(meant) == "" {
		hint = `it belongs to "` + r.dialect.Section + `" itself`
	} else if meant != "" {
		hint = "it belongs to " + parent(meant) + ": " + meant
	} else if !r.listed[path] {
		r.listed[path] = true
		slices.Sort(names)
		hint = "known are " + strings.Join(names, ", ")
	}
	if meant != "" {
		r.doubtful = append(r.doubtful, meant)
	}
	r.refuse(key, r.below(path, clip(key.Value)), "unknown key", hint)
}

// renamed returns what Dialect.Renamed does.
func (r *Reader) renamed(path string) (called, hint string) {
	if r.dialect.Renamed == nil {
		return "", ""
	}
	return r.dialect.Renamed(path)
}

// elsewhere returns the one path of the section with a key of this name, or "".
func (r *Reader) elsewhere(key string) string {
	if r.dialect.Section == "" {
		return ""
	}
	found := ""
	for path := range keysOf("", r.shape) {
		if path == key || strings.HasSuffix(path, "."+key) {
			if found != "" {
				return ""
			}
			found = path
		}
	}
	return found
}

// keysOf yields the paths of all keys of a struct: "vm.network[].mac".
func keysOf(path string, t reflect.Type) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, f := range fieldsOf(reflect.New(t).Elem()) {
			at, of := join(path, f.key), f.value.Type()
			if !yield(at) {
				return
			}
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				if of.Kind() == reflect.Slice {
					at += "[]"
				}
				of = of.Elem()
			}
			if of.Kind() == reflect.Struct && of != reflect.TypeFor[yaml.Node]() {
				for sub := range keysOf(at, of) {
					if !yield(sub) {
						return
					}
				}
			}
		}
	}
}

// free decodes what is handed on as it is: a field of type map[string]any.
func (r *Reader) free(path string, n *yaml.Node) map[string]any {
	values := map[string]any{}
	for _, e := range r.entries(path, n) {
		at := r.below(path, clip(e.key.Value))
		r.noteFree(at, e.key, e.value)
		values[e.key.Value] = r.freeValue(at, e.value)
	}
	return values
}

// mostFree bounds the places that are kept of free values: they stay in memory.
const mostFree = 10_000

// noteFree keeps the place of a free value, where its reader may find a fault later.
func (r *Reader) noteFree(path string, key, value *yaml.Node) {
	if len(r.doc.at) < mostFree {
		r.doc.at[path] = placeOf(key, value)
	}
}

func (r *Reader) freeValue(path string, n *yaml.Node) any {
	n, leave := r.enter(path, n)
	if n == nil {
		return nil
	}
	defer leave()
	switch n.Kind {
	case yaml.MappingNode:
		return r.free(path, n)
	case yaml.SequenceNode:
		values := make([]any, len(n.Content))
		for i, item := range n.Content {
			at := path
			if len(path) <= longestPath {
				at += "[" + strconv.Itoa(i) + "]"
			}
			r.noteFree(at, nil, item)
			values[i] = r.freeValue(at, item)
		}
		return values
	default:
		value, message, hint := freeScalar(n)
		if message != "" {
			r.refuse(n, path, message, hint)
		}
		return value
	}
}

// longestPath bounds paths, which only free values can make longer.
const longestPath = 128

// below returns the path of a key in a section: that of a component has its own
// slash.
func (r *Reader) below(path, key string) string {
	if r.dialect.Section == "" && strings.HasPrefix(key, "/") && len(path) <= longestPath {
		return path + key
	}
	return join(path, key)
}

func join(path, key string) string {
	switch {
	case path == "":
		return key
	case len(path) > longestPath:
		return path
	}
	return path + "." + key
}

// clip makes a word of the file fit for a message.
func clip(s string) string { return printable.Line(printable.Clip(s, longestWord)) }

// longestWord bounds what messages quote, in characters.
const longestWord = 60
