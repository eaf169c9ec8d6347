package vmtypes

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"go.starlark.net/starlark"
)

// An Attr describes the allowed values of an option of a VM type.
type Attr struct {
	// Type is string, file, int, bool, size (a number of bytes), list, dict or record.
	Type string `json:"type"`
	// Doc is the author's description of the option.
	Doc string `json:"doc,omitempty"`
	// Mandatory means that the configuration must set the option.
	Mandatory bool `json:"mandatory,omitempty"`
	// Default is the value if the configuration omits the option; nil if there is no default. Its Go types are
	// the same as in vmspec.Spec.Options; a size is an int64.
	Default any `json:"default,omitempty"`
	// Values are the only allowed values, strings or int64; nil means any value.
	Values []any `json:"values,omitempty"`
	// Minimum and Maximum bound an int or a size; nil means no bound.
	Minimum *int64 `json:"minimum,omitempty"`
	Maximum *int64 `json:"maximum,omitempty"`
	// Items of a list, and values of a dict, must match Of.
	Of *Attr `json:"of,omitempty"`
	// Fields are the fields of a record, in the order of the source.
	Fields []Option `json:"fields,omitempty"`
	// File and Line are the place of the declaration.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// An Option is a declared option of a VM type, or a field of a record.
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

// deepestAttr is the maximum nesting depth of lists, dicts and records.
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

// attrModule returns the Starlark module attr. Its functions declare options.
func attrModule() *moduleValue {
	return &moduleValue{"attr", starlark.StringDict{
		"string": starlark.NewBuiltin("attr.string", newString),
		"file":   starlark.NewBuiltin("attr.file", newFile),
		"int":    starlark.NewBuiltin("attr.int", newInt),
		"bool":   starlark.NewBuiltin("attr.bool", newBool),
		"size":   starlark.NewBuiltin("attr.size", newSize),
		"list":   starlark.NewBuiltin("attr.list", newListAttr),
		"dict":   starlark.NewBuiltin("attr.dict", newDict),
		"record": starlark.NewBuiltin("attr.record", newRecord),
	}}
}

// limits holds the arguments of an attr function that can only be checked together.
type limits struct {
	standard, minimum, maximum starlark.Value
	values                     starlark.Iterable
	of                         *attrValue
	fields                     *starlark.Dict
}

// newAttrValue returns an attr of the given type. Its place is the call that the thread is executing.
func newAttrValue(thread *starlark.Thread, kind string) (*attrValue, *limits) {
	a := &attrValue{Attr: Attr{Type: kind}}
	if thread.CallStackDepth() > 1 {
		pos := thread.CallFrame(1).Pos
		a.File, a.Line = pos.Filename(), int(pos.Line)
	}
	return a, &limits{standard: starlark.None, minimum: starlark.None, maximum: starlark.None}
}

// finishAttr completes the attr and returns it. err is the error of parsing the call's arguments, if any.
func (a *attrValue) finishAttr(b *starlark.Builtin, in *limits, err error) (starlark.Value, error) {
	if err != nil {
		return nil, err
	}
	if err = a.completeAttr(in); err == nil {
		err = a.setDefault(in.standard)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return a, nil
}

// keywordsOnly rejects more than n positional arguments, because a reader could not see their meaning.
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
	return a.finishAttr(b, in, err)
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
	return a.finishAttr(b, in, err)
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
	return a.finishAttr(b, in, err)
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
	return a.finishAttr(b, in, err)
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
	return a.finishAttr(b, in, err)
}

func newListAttr(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if err := keywordsOnly(b, args, 1); err != nil {
		return nil, err
	}
	a, in := newAttrValue(thread, attrList)
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"of", &in.of, "default?", &in.standard, "doc?", &a.Doc, "mandatory?", &a.Mandatory)
	return a.finishAttr(b, in, err)
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
	return a.finishAttr(b, in, err)
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
	return a.finishAttr(b, in, err)
}

// completeAttr sets the fields that only some types have.
func (a *attrValue) completeAttr(in *limits) (err error) {
	least, err := a.boundOf("minimum", in.minimum)
	if err != nil {
		return err
	}
	most, err := a.boundOf("maximum", in.maximum)
	if err != nil {
		return err
	}
	if least != nil && most != nil && *least > *most {
		return fmt.Errorf("the minimum %s is more than the maximum %s", a.shownValue(*least), a.shownValue(*most))
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

// boundOf returns a minimum or maximum; nil for None.
func (a *attrValue) boundOf(name string, v starlark.Value) (*int64, error) {
	if v == starlark.None {
		return nil, nil
	}
	number, err := a.convertArgument(name, v)
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
		value, err := a.convertArgument("values", v)
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
	a.Default, err = a.convertArgument("default", v)
	return err
}

// convertArgument returns an argument in the form of vmspec.Spec.Options, after the same checks as for a value in the
// configuration.
func (a *attrValue) convertArgument(name string, v starlark.Value) (any, error) {
	plain, err := plainValue(v, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	value, faults := a.givenValue(name, plain)
	if len(faults) > 0 {
		return nil, errors.New(faults[0].String())
	}
	if a.Attr.Type == attrSize { // in bytes, in any notation
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
			return nil, fmt.Errorf("%s is out of range", clipWord(v.String()))
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
				return nil, fmt.Errorf("a key must be a string, not %s", withArticle(item[0]))
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
	return nil, fmt.Errorf("must be a value that a configuration can contain, not %s", withArticle(v))
}

// optionsOf reads a dict of attrs.
func optionsOf(d *starlark.Dict) (options []Option, depth int, err error) {
	for _, item := range d.Items() {
		name, ok := starlark.AsString(item[0])
		if !ok {
			return nil, 0, fmt.Errorf("the key %s must be the name of an option as a string, not %s", item[0],
				withArticle(item[0]))
		}
		if why := badName(name); why != "" {
			return nil, 0, fmt.Errorf("%q can't be the name of an option: %s", clipWord(name), why)
		}
		a, ok := item[1].(*attrValue)
		if !ok {
			return nil, 0, fmt.Errorf("%s must be an attr such as attr.string(), not %s", name, withArticle(item[1]))
		}
		depth = max(depth, a.depth)
		options = append(options, Option{Name: name, Attr: a.Attr})
	}
	return options, depth, nil
}

// longestName is the maximum length of an option's name.
const longestName = 64

// badName returns the reason why a name is invalid, or "". A valid name can be a key in YAML and an attribute in
// Starlark.
func badName(name string) string {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '_' && (r < '0' || r > '9')) {
			return "use a letter, then letters, digits and _"
		}
	}
	reserved := []string{
		"y", "n", "yes", "no", "on", "off", "true", "false", "null", // YAML reads these as other types
		"and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
		"finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "load", "nonlocal", "not", "or",
		"pass", "raise", "return", "try", "while", "with", "yield", // reserved in Starlark
		"False", "None", "True",
	}
	switch {
	case name == "":
		return "it is empty"
	case len(name) > longestName:
		return fmt.Sprintf("it has %d letters, the most is %d", len(name), longestName)
	case slices.Contains(reserved, name):
		return "it has a special meaning in YAML or Starlark"
	}
	return ""
}
