package vmtypes

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"go.starlark.net/starlark"
)

// An Attr says which values an option of a VM type may have.
type Attr struct {
	// Type is string, file, int, bool, size (a number of bytes), list, dict or record.
	Type string `json:"type"`
	// Doc is what the option is for, in the author's words.
	Doc string `json:"doc,omitempty"`
	// Mandatory says that the configuration must give a value.
	Mandatory bool `json:"mandatory,omitempty"`
	// Default is used without a value in the configuration; nil if there is none.
	// It is of the types of vmspec.Spec.Options; a size is an int64.
	Default any `json:"default,omitempty"`
	// Values are all that are allowed; nil means any. They are strings or int64.
	Values []any `json:"values,omitempty"`
	// Minimum and Maximum bound an int or a size; nil means no bound.
	Minimum *int64 `json:"minimum,omitempty"`
	Maximum *int64 `json:"maximum,omitempty"`
	// Of is what the items of a list and the values of a dict may be.
	Of *Attr `json:"of,omitempty"`
	// Fields are those of a record, in the order of the source.
	Fields []Option `json:"fields,omitempty"`
	// File and Line are where it was made.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// An Option is one that a VM type declares, or a field of a record.
//
// See docs/decisions/0026-declared-options.md.
type Option struct {
	Name string `json:"name"`
	Attr
}

// The types of options.
const (
	attrString = "string"
	attrFile   = "file"
	attrInt    = "int"
	attrBool   = "bool"
	attrSize   = "size"
	attrList   = "list"
	attrDict   = "dict"
	attrRecord = "record"
)

// deepestAttr bounds how deep lists, dicts and records are nested in each other.
const deepestAttr = 8

// attrValue is an Attr in Starlark.
type attrValue struct {
	Attr
	depth int
}

func (a *attrValue) String() string        { return "<attr." + a.Attr.Type + ">" }
func (a *attrValue) Type() string          { return "attr" }
func (a *attrValue) Freeze()               {}
func (a *attrValue) Truth() starlark.Bool  { return true }
func (a *attrValue) Hash() (uint32, error) { return 0, errUnhashable }

// attrModule is the module whose functions declare options.
func attrModule() *moduleValue {
	return &moduleValue{"attr", starlark.StringDict{
		"string": starlark.NewBuiltin("attr.string", newString),
		"file":   starlark.NewBuiltin("attr.file", newFile),
		"int":    starlark.NewBuiltin("attr.int", newInt),
		"bool":   starlark.NewBuiltin("attr.bool", newBool),
		"size":   starlark.NewBuiltin("attr.size", newSize),
		"list":   starlark.NewBuiltin("attr.list", newList),
		"dict":   starlark.NewBuiltin("attr.dict", newDict),
		"record": starlark.NewBuiltin("attr.record", newRecord),
	}}
}

// limits are the arguments of a function of the module that are checked when all
// are known.
type limits struct {
	standard, minimum, maximum starlark.Value
	values                     starlark.Iterable
	of                         *attrValue
	fields                     *starlark.Dict
}

// newAttrValue returns an attr of a type, made where the thread is.
func newAttrValue(thread *starlark.Thread, kind string) (*attrValue, *limits) {
	a := &attrValue{Attr: Attr{Type: kind}}
	if thread.CallStackDepth() > 1 {
		pos := thread.CallFrame(1).Pos
		a.File, a.Line = pos.Filename(), int(pos.Line)
	}
	return a, &limits{standard: starlark.None, minimum: starlark.None, maximum: starlark.None}
}

// finish returns the attr, complete; err is what was wrong with the call.
func (a *attrValue) finish(b *starlark.Builtin, in *limits, err error) (starlark.Value, error) {
	if err != nil {
		return nil, err
	}
	if err = a.complete(in); err == nil {
		err = a.setDefault(in.standard)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return a, nil
}

// keywordsOnly refuses arguments by place beyond the first n: what they stand for
// would not be said.
func keywordsOnly(b *starlark.Builtin, args starlark.Tuple, n int) error {
	if len(args) > n {
		return fmt.Errorf("%s: default, doc and the like must be given by name: %s(default = …, doc = …)",
			b.Name(), b.Name())
	}
	return nil
}

func newString(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := keywordsOnly(b, args, 0); err != nil {
		return nil, err
	}
	a, in := newAttrValue(thread, attrString)
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"default?", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory, "values??", &in.values)
	return a.finish(b, in, err)
}

func newFile(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := keywordsOnly(b, args, 0); err != nil {
		return nil, err
	}
	a, in := newAttrValue(thread, attrFile)
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"default?", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory)
	return a.finish(b, in, err)
}

func newInt(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := keywordsOnly(b, args, 0); err != nil {
		return nil, err
	}
	a, in := newAttrValue(thread, attrInt)
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"default?", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory,
		"values??", &in.values, "minimum?", &in.minimum, "maximum?", &in.maximum)
	return a.finish(b, in, err)
}

func newBool(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := keywordsOnly(b, args, 0); err != nil {
		return nil, err
	}
	a, in := newAttrValue(thread, attrBool)
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"default?", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory)
	return a.finish(b, in, err)
}

func newSize(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := keywordsOnly(b, args, 0); err != nil {
		return nil, err
	}
	a, in := newAttrValue(thread, attrSize)
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"default?", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory,
		"values??", &in.values, "minimum?", &in.minimum, "maximum?", &in.maximum)
	return a.finish(b, in, err)
}

func newList(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := keywordsOnly(b, args, 1); err != nil {
		return nil, err
	}
	a, in := newAttrValue(thread, attrList)
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"of", &in.of, "default?", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory)
	return a.finish(b, in, err)
}

func newDict(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := keywordsOnly(b, args, 1); err != nil {
		return nil, err
	}
	a, in := newAttrValue(thread, attrDict)
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"of", &in.of, "default?", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory)
	return a.finish(b, in, err)
}

func newRecord(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := keywordsOnly(b, args, 1); err != nil {
		return nil, err
	}
	a, in := newAttrValue(thread, attrRecord)
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"fields", &in.fields, "default?", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory)
	return a.finish(b, in, err)
}

// complete sets what only some types have.
func (a *attrValue) complete(in *limits) (err error) {
	least, err := a.bound("minimum", in.minimum)
	if err != nil {
		return err
	}
	most, err := a.bound("maximum", in.maximum)
	if err != nil {
		return err
	}
	if least != nil && most != nil && *least > *most {
		return fmt.Errorf("the minimum %s is more than the maximum %s", a.shown(*least), a.shown(*most))
	}
	a.Minimum, a.Maximum = least, most
	if err := a.setValues(in.values); err != nil {
		return err
	}
	if in.of != nil {
		a.Of, a.depth = &in.of.Attr, in.of.depth+1
	}
	if in.fields != nil {
		if a.Fields, a.depth, err = optionsOf(in.fields); err != nil {
			return err
		}
		a.depth++
	}
	if a.depth > deepestAttr {
		return fmt.Errorf("nested deeper than %d", deepestAttr)
	}
	return nil
}

// bound returns a minimum or maximum; nil for None.
func (a *attrValue) bound(name string, v starlark.Value) (*int64, error) {
	if v == starlark.None {
		return nil, nil
	}
	number, err := a.convert(name, v)
	if err != nil {
		return nil, err
	}
	n := number.(int64)
	return &n, nil
}

func (a *attrValue) setValues(values starlark.Iterable) error {
	if values == nil {
		return nil
	}
	iter := values.Iterate()
	defer iter.Done()
	var v starlark.Value
	var list []any
	for iter.Next(&v) {
		value, err := a.convert("values", v)
		if err != nil {
			return err
		}
		list = append(list, value)
	}
	if list == nil {
		return errors.New("values is empty, so no value would be allowed")
	}
	a.Values = list
	return nil
}

func (a *attrValue) setDefault(v starlark.Value) (err error) {
	if v == starlark.None {
		return nil
	}
	if a.Mandatory {
		return errors.New("a mandatory option cannot have a default")
	}
	a.Default, err = a.convert("default", v)
	return err
}

// convert returns an argument, checked as a value of the configuration would be,
// in the form of vmspec.Spec.Options.
func (a *attrValue) convert(name string, v starlark.Value) (any, error) {
	plain, err := plainValue(v, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	value, faults := a.value(name, plain)
	if len(faults) > 0 {
		return nil, errors.New(faults[0].String())
	}
	if a.Attr.Type == attrSize { // in bytes, however it was written
		plain, _ = plainValue(value, 0)
	}
	return plain, nil
}

// plainValue returns a Starlark value in the form of vmspec.Spec.Options.
func plainValue(v starlark.Value, depth int) (any, error) {
	if depth > deepestAttr {
		return nil, fmt.Errorf("nested deeper than %d", deepestAttr)
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return nil, nil
	case starlark.String:
		return string(v), nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.Int:
		n, ok := v.Int64()
		if !ok {
			return nil, fmt.Errorf("%s is out of range", clipped(v.String()))
		}
		return n, nil
	case starlark.Float:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
	case *starlark.Dict:
		m := make(map[string]any, v.Len())
		for _, item := range v.Items() {
			key, ok := starlark.AsString(item[0])
			if !ok {
				return nil, fmt.Errorf("a key is %s, want a text", article(item[0]))
			}
			value, err := plainValue(item[1], depth+1)
			if err != nil {
				return nil, err
			}
			m[key] = value
		}
		return m, nil
	case *starlark.List, starlark.Tuple:
		items := v.(starlark.Indexable)
		list := make([]any, items.Len())
		for i := range list {
			item, err := plainValue(items.Index(i), depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = item
		}
		return list, nil
	}
	return nil, fmt.Errorf("got %s, want a value that a configuration can contain", article(v))
}

// optionsOf reads a dict of attrs.
func optionsOf(d *starlark.Dict) (options []Option, depth int, err error) {
	for _, item := range d.Items() {
		name, ok := starlark.AsString(item[0])
		if !ok {
			return nil, 0, fmt.Errorf("%s is %s, want the name of an option as a string", item[0], article(item[0]))
		}
		if why := badName(name); why != "" {
			return nil, 0, fmt.Errorf("%q can't be the name of an option: %s", clipped(name), why)
		}
		a, ok := item[1].(*attrValue)
		if !ok {
			return nil, 0, fmt.Errorf("%s is %s, want an attr, such as attr.string()", name, article(item[1]))
		}
		depth = max(depth, a.depth)
		options = append(options, Option{Name: name, Attr: a.Attr})
	}
	return options, depth, nil
}

// longestName bounds the names of options.
const longestName = 64

// badName says why a name is none that can be written as a key in YAML and
// after the dot in Starlark; "" if it can.
func badName(name string) string {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '_' && (r < '0' || r > '9')) {
			return "want a letter, then letters, digits and _"
		}
	}
	reserved := []string{
		"y", "n", "yes", "no", "on", "off", "true", "false", "null", // YAML reads them as something else
		"and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
		"finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "load", "nonlocal", "not", "or",
		"pass", "raise", "return", "try", "while", "with", "yield", // Starlark reserves them
		"False", "None", "True",
	}
	switch {
	case name == "":
		return "it is empty"
	case len(name) > longestName:
		return fmt.Sprintf("it has %d letters, the most is %d", len(name), longestName)
	case slices.Contains(reserved, name):
		return "it has a meaning of its own in YAML or Starlark"
	}
	return ""
}
