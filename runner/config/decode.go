package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"vmop/spelling"
)

// Bounds of what aliases may do to a decoder. Without aliases the size of the
// file is bound enough.
const (
	deepest     = 64
	mostAliased = 100_000
)

// A decoder fills Go values from a YAML tree, as their yaml tags say, and goes
// on where it finds a fault.
type decoder struct {
	*report
	*places // of all paths that were decoded
	// doubtful are paths with a fault, and those that misspelt keys may mean:
	// a fault that rests on them may only be a consequence.
	doubtful []string

	depth   int
	aliases []*yaml.Node    // the aliases that are being followed
	aliased int             // nodes that were reached through an alias
	listed  map[string]bool // mappings whose known keys were listed
}

func newDecoder(r *report) *decoder {
	return &decoder{
		report: r,
		places: &places{file: r.file, lines: r.lines, inFile: r.inFile, at: map[string]place{}},
		listed: map[string]bool{},
	}
}

// refuse notes a fault of the value or key n at path.
func (d *decoder) refuse(n *yaml.Node, path, message, hint string) {
	d.doubtful = append(d.doubtful, path)
	d.add(n.Line, n.Column, path, message, hint)
}

// decode fills to from n. Null counts as absent, except that it makes a list an
// empty one.
func (d *decoder) decode(path string, key, n *yaml.Node, to reflect.Value) {
	d.at[path] = placeOf(key, n)
	n, leave := d.enter(path, n)
	if n == nil {
		return
	}
	defer leave()
	switch {
	case to.Type() == reflect.TypeFor[yaml.Node]():
		to.Set(reflect.ValueOf(*n))
	case to.Kind() == reflect.Interface:
		if value := d.freeValue(path, n); value != nil {
			to.Set(reflect.ValueOf(value))
		}
	case n.Kind == yaml.ScalarNode && !knownTag(n):
		d.refuse(n, path, "the tag "+n.Tag+" means nothing here", "leave it out")
	case isEmpty(n):
		if to.Kind() == reflect.Slice {
			to.Set(reflect.MakeSlice(to.Type(), 0, 0))
		}
	case to.Kind() == reflect.Pointer:
		value := reflect.New(to.Type().Elem())
		d.fill(path, n, value.Elem())
		to.Set(value)
	default:
		d.fill(path, n, to)
	}
}

// fill fills to from a node that is neither null nor an alias.
func (d *decoder) fill(path string, n *yaml.Node, to reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		if d.wants(path, n, yaml.MappingNode, "a mapping") {
			d.structure(path, n, to)
		}
	case reflect.Slice:
		if d.wants(path, n, yaml.SequenceNode, "a list") {
			d.list(path, n, to)
		}
	case reflect.Map:
		if d.wants(path, n, yaml.MappingNode, "a mapping") {
			to.Set(reflect.ValueOf(d.free(path, n)))
		}
	default:
		if message, hint := setScalar(to, n); message != "" {
			d.refuse(n, path, message, hint)
		}
	}
}

func (d *decoder) wants(path string, n *yaml.Node, kind yaml.Kind, name string) bool {
	if n.Kind != kind {
		d.refuse(n, path, "got "+describe(n)+", want "+name, "")
	}
	return n.Kind == kind
}

func (d *decoder) list(path string, n *yaml.Node, to reflect.Value) {
	to.Set(reflect.MakeSlice(to.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		element := path + "[" + strconv.Itoa(i) + "]"
		if isEmpty(item) {
			d.refuse(item, element, "an item without a value", "")
			continue
		}
		d.decode(element, nil, item, to.Index(i))
	}
}

// A field is one that a mapping can set: by its key, from the tag yaml.
type field struct {
	key    string
	value  reflect.Value
	least  string // the tag min
	former bool   // the tag former: known, but not to be used any more
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
			fields = append(fields, field{key, v.Field(i), f.Tag.Get("min"), former})
		}
	}
	return fields
}

func (d *decoder) structure(path string, n *yaml.Node, to reflect.Value) {
	fields := fieldsOf(to)
	for _, e := range d.entries(path, n) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.key.Value })
		if i < 0 {
			d.unknownKey(path, e.key, fields)
			continue
		}
		f := fields[i]
		at := d.below(path, f.key)
		before := len(d.doubtful)
		d.decode(at, e.key, e.value, f.value)
		if len(d.doubtful) == before && f.least != "" && !isEmpty(e.value) {
			d.least(at, e.value, f)
		}
	}
}

// least wants a number to be what the field's tag min demands. It is checked
// here because a spec can't tell a given 0 from an absent key.
func (d *decoder) least(path string, n *yaml.Node, f field) {
	least, err := strconv.ParseInt(f.least, 10, 64)
	if err != nil {
		panic("the tag min of " + path + " is no number: " + f.least)
	}
	if f.value.Int() < least {
		d.refuse(n, path, fmt.Sprintf("can't be %d", f.value.Int()), fmt.Sprintf("at least %d; without the key its default is used", least))
	}
}

// unknownKey notes a key that is none, and which may have been meant.
func (d *decoder) unknownKey(path string, key *yaml.Node, fields []field) {
	if len(d.faults) == mostFaults {
		d.more++
		return
	}
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		if !f.former {
			names = append(names, f.key)
		}
	}
	var meant, hint string
	if meant = foreignKey(join(path, key.Value)); meant != "" && !d.other {
		hint = "it is called " + meant + " here"
	} else if near := spelling.Nearest(key.Value, names); near != "" {
		meant, hint = d.below(path, near), "did you mean "+near+"?"
	} else if meant = elsewhere(key.Value); meant != "" && parent(meant) == "" && !d.other {
		hint = `it belongs to "/Runner" itself`
	} else if meant != "" && !d.other {
		hint = "it belongs to " + parent(meant) + ": " + meant
	} else if !d.listed[path] {
		d.listed[path] = true
		slices.Sort(names)
		hint = "known are " + strings.Join(names, ", ")
	}
	if meant != "" {
		d.doubtful = append(d.doubtful, meant)
	}
	d.refuse(key, d.below(path, clip(key.Value)), "unknown key", hint)
}

// elsewhere returns the one path with a key of this name, or "".
func elsewhere(key string) string {
	found := ""
	for path := range keysOf("", reflect.TypeFor[section]()) {
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

// free decodes what is handed on as it is: vm.options.
func (d *decoder) free(path string, n *yaml.Node) map[string]any {
	values := map[string]any{}
	for _, e := range d.entries(path, n) {
		at := d.below(path, clip(e.key.Value))
		d.noteFree(at, e.key, e.value)
		values[e.key.Value] = d.freeValue(at, e.value)
	}
	return values
}

// mostFree bounds the places that are kept of vm.options: they stay in memory.
const mostFree = 10_000

// noteFree keeps the place of what is in vm.options, where the VM type may find
// a fault later.
func (d *decoder) noteFree(path string, key, value *yaml.Node) {
	if len(d.at) < mostFree {
		d.at[path] = placeOf(key, value)
	}
}

func (d *decoder) freeValue(path string, n *yaml.Node) any {
	n, leave := d.enter(path, n)
	if n == nil {
		return nil
	}
	defer leave()
	switch n.Kind {
	case yaml.MappingNode:
		return d.free(path, n)
	case yaml.SequenceNode:
		values := make([]any, len(n.Content))
		for i, item := range n.Content {
			at := path
			if len(path) <= longestPath {
				at += "[" + strconv.Itoa(i) + "]"
			}
			d.noteFree(at, nil, item)
			values[i] = d.freeValue(at, item)
		}
		return values
	default:
		value, message, hint := freeScalar(n)
		if message != "" {
			d.refuse(n, path, message, hint)
		}
		return value
	}
}

// longestPath bounds paths, which only options can make longer.
const longestPath = 128

// below returns the path of a key in a section: that of a component has its own
// slash.
func (r *report) below(path, key string) string {
	if r.other && strings.HasPrefix(key, "/") && len(path) <= longestPath {
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

// clip makes a word of the file fit for a message: short, and without what
// would disturb a terminal.
func clip(s string) string {
	const most = 60
	runes := []rune(s[:min(len(s), most*utf8.UTFMax)])
	if len(runes) > most || len(s) > most*utf8.UTFMax {
		runes = append(runes[:min(len(runes), most)], '…')
	}
	return printable(runes)
}
