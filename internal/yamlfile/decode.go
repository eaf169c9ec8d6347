package yamlfile

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"vmop/internal/printable"
	"vmop/internal/spelling"
)

// Limits for the use of aliases in decoding. Without aliases the size of the file is limit enough.
const (
	deepest     = 64
	mostAliased = 100_000
)

// decodeNode fills to from n. Null counts as absent, except that a list becomes an empty list.
func (r *Reader) decodeNode(path string, key, n *yaml.Node, to reflect.Value) {
	r.doc.at[path] = placeOfPair(key, n)
	n, leave := r.enterAlias(path, n)
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
		r.refuseNode(n, path, "the tag "+n.Tag+" has no meaning here", "leave it out")
	case isEmpty(n):
		if to.Kind() == reflect.Slice {
			to.Set(reflect.MakeSlice(to.Type(), 0, 0))
		}
	case to.Kind() == reflect.Pointer:
		value := reflect.New(to.Type().Elem())
		r.fillNode(path, n, value.Elem())
		to.Set(value)
	default:
		r.fillNode(path, n, to)
	}
}

// fillNode fills to from a node that isn't null or an alias.
func (r *Reader) fillNode(path string, n *yaml.Node, to reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		fields := fieldsOf(to)
		short := slices.IndexFunc(fields, func(f field) bool { return f.scalar })
		if short >= 0 && n.Kind == yaml.ScalarNode {
			r.decodeNode(joinPath(path, fields[short].key), nil, n, fields[short].value)
		} else if r.checkKind(path, n, yaml.MappingNode, "a mapping", exampleOf(to)) {
			r.fillStruct(path, n, to)
		}
	case reflect.Slice:
		if r.checkKind(path, n, yaml.SequenceNode, "a list", "") {
			r.fillList(path, n, to)
		}
	case reflect.Map:
		if r.checkKind(path, n, yaml.MappingNode, "a mapping", "") {
			to.Set(reflect.ValueOf(r.freeMapping(path, n)))
		}
	default:
		if message, hint := setScalar(to, n); message != "" {
			r.refuseNode(n, path, message, hint)
		}
	}
}

// exampleOf returns a hint for a mapping if the type of to has a method Example.
func exampleOf(to reflect.Value) string {
	if e, ok := to.Interface().(interface{ Example() string }); ok {
		return "such as " + e.Example()
	}
	return ""
}

func (r *Reader) checkKind(path string, n *yaml.Node, kind yaml.Kind, name, hint string) bool {
	if n.Kind != kind {
		r.refuseNode(n, path, "must be "+name+", not "+describeNode(n), hint)
	}
	return n.Kind == kind
}

func (r *Reader) fillList(path string, n *yaml.Node, to reflect.Value) {
	to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		element := path + "[" + strconv.Itoa(i) + "]"
		if isEmpty(item) {
			r.refuseNode(item, element, "an item without a value", "")
			continue
		}
		r.decodeNode(element, nil, item, to.Index(i))
	}
}

// A field is a struct field that a mapping can set. Its key comes from the tag yaml.
type field struct {
	key    string
	value  reflect.Value
	least  string // the tag min
	former bool   // the tag former: known, but obsolete
	scalar bool   // the tag scalar: a scalar instead of the mapping is its value
}

// fieldsOf lists the fields of a struct, including the fields of embedded structs.
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

func (r *Reader) fillStruct(path string, n *yaml.Node, to reflect.Value) {
	fields := fieldsOf(to)
	for _, e := range r.entriesOf(path, n) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.key.Value })
		if i < 0 {
			r.unknownKey(path, e.key, fields)
			continue
		}
		f := fields[i]
		at := r.pathBelow(path, f.key)
		before := len(r.doubtful)
		r.decodeNode(at, e.key, e.value, f.value)
		if len(r.doubtful) == before && f.least != "" && !isEmpty(e.value) {
			r.checkLeast(at, e.value, f)
		}
	}
}

// checkLeast requires a number to be at least the value of the field's tag min. The check is here because a spec
// doesn't distinguish a given 0 from an absent key.
func (r *Reader) checkLeast(path string, n *yaml.Node, f field) {
	least, err := strconv.ParseInt(f.least, 10, 64)
	if err != nil {
		panic("the tag min of " + path + " is no number: " + f.least)
	}
	if f.value.Int() < least {
		hint := fmt.Sprintf("at least %d; without the key its default is used", least)
		r.refuseNode(n, path, fmt.Sprintf("can't be %d", f.value.Int()), hint)
	}
}

// unknownKey reports an unknown key and suggests the key that may be meant.
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
	if meant, hint = r.renamedKey(joinPath(path, key.Value)); meant != "" {
		hint = "it is called " + meant + " here"
	} else if hint != "" { // Renamed has returned the hint
	} else if all := r.meantKeys(joinPath(path, key.Value)); len(all) > 0 {
		hint = spelling.DidYouMean(path, all...)
		r.doubtful = append(r.doubtful, all...)
	} else if near := spelling.Nearest(key.Value, names); near != "" {
		meant, hint = r.pathBelow(path, near), "did you mean "+near+"?"
	} else if meant = r.otherPathOf(key.Value); meant != "" && parentPath(meant) == "" {
		hint = `it belongs to "` + r.dialect.Section + `" itself`
	} else if meant != "" {
		hint = "it belongs to " + parentPath(meant) + ": " + meant
	} else if !r.listed[path] {
		r.listed[path] = true
		slices.Sort(names)
		hint = "known are " + strings.Join(names, ", ")
	}
	if meant != "" {
		r.doubtful = append(r.doubtful, meant)
	}
	r.refuseNode(key, r.pathBelow(path, clipWord(key.Value)), "unknown key", hint)
}

// renamedKey calls Dialect.Renamed.
func (r *Reader) renamedKey(path string) (called, hint string) {
	if r.dialect.Renamed == nil {
		return "", ""
	}
	return r.dialect.Renamed(path)
}

// meantKeys calls Dialect.Meant.
func (r *Reader) meantKeys(path string) []string {
	if r.dialect.Meant == nil {
		return nil
	}
	return r.dialect.Meant(path)
}

// otherPathOf returns the path of the section's only key with this name, or "" if there isn't exactly one.
func (r *Reader) otherPathOf(key string) string {
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

// keysOf yields the paths of all keys of a struct, such as "vm.network[].mac".
func keysOf(path string, t reflect.Type) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, f := range fieldsOf(reflect.New(t).Elem()) {
			at, of := joinPath(path, f.key), f.value.Type()
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

// freeMapping decodes values that are passed on unchanged: a field of type map[string]any.
func (r *Reader) freeMapping(path string, n *yaml.Node) map[string]any {
	values := map[string]any{}
	for _, e := range r.entriesOf(path, n) {
		at := r.pathBelow(path, clipWord(e.key.Value))
		r.noteFree(at, e.key, e.value)
		values[e.key.Value] = r.freeValue(at, e.value)
	}
	return values
}

// mostFree is the maximum number of places of free values to keep, because they stay in memory.
const mostFree = 10_000

// noteFree records the place of a free value, for errors that its reader finds later.
func (r *Reader) noteFree(path string, key, value *yaml.Node) {
	if len(r.doc.at) < mostFree {
		r.doc.at[path] = placeOfPair(key, value)
	}
}

func (r *Reader) freeValue(path string, n *yaml.Node) any {
	n, leave := r.enterAlias(path, n)
	if n == nil {
		return nil
	}
	defer leave()
	switch n.Kind {
	case yaml.MappingNode:
		return r.freeMapping(path, n)
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
			r.refuseNode(n, path, message, hint)
		}
		return value
	}
}

// longestPath limits the length of paths; only free values can exceed it.
const longestPath = 128

// pathBelow returns the path of a key in a section. The key of a component begins with its own slash.
func (r *Reader) pathBelow(path, key string) string {
	if r.dialect.Section == "" && strings.HasPrefix(key, "/") && len(path) <= longestPath {
		return path + key
	}
	return joinPath(path, key)
}

func joinPath(path, key string) string {
	switch {
	case path == "":
		return key
	case len(path) > longestPath:
		return path
	}
	return path + "." + key
}

// clipWord shortens a word of the file for a message and makes it printable.
func clipWord(s string) string { return printable.Line(printable.Clip(s, longestWord)) }

// longestWord is the maximum length of quoted words in messages, in characters.
const longestWord = 60
