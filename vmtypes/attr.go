package vmtypes

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// An Attr describes the allowed values of an option of a VM type.
type Attr struct {
	// Type is string, file, int, bool, size (in bytes), duration (in seconds), percent, rate (in bytes per second),
	// list, dict or record.
	Type string `json:"type"`
	// Label is the name of the option on forms; "" means its name in the configuration. Options with the same Group
	// belong under one heading with that text.
	Label string `json:"label,omitempty"`
	Group string `json:"group,omitempty"`
	// Doc is the author's description of the option.
	Doc string `json:"doc,omitempty"`
	// Mandatory means that the configuration must set the option.
	Mandatory bool `json:"mandatory,omitempty"`
	// RequiredIf contains conditions. If they all hold, the configuration must set the option. nil means no condition.
	RequiredIf []Condition `json:"requiredIf,omitempty"`
	// Default is the value if the configuration omits the option; nil if there is no default. Its Go types are
	// the same as in vmspec.Spec.Options; a number with a unit is an int64.
	Default any `json:"default,omitempty"`
	// DefaultRule describes a default that a function computes from the preceding options; "" without a function.
	DefaultRule string `json:"defaultRule,omitempty"`
	// Deprecated explains what to use instead; "" if the option is not deprecated.
	Deprecated string `json:"deprecated,omitempty"`
	// Aliases are former names of the option, which configurations may still use.
	Aliases []string `json:"aliases,omitempty"`
	// Values are the only allowed values, strings or int64; nil means any value.
	Values []any `json:"values,omitempty"`
	// Minimum and Maximum bound a number; nil means no bound.
	Minimum *int64 `json:"minimum,omitempty"`
	Maximum *int64 `json:"maximum,omitempty"`
	// Pattern is a regular expression in RE2 syntax that matches the whole string; "" means any string. Messages show
	// Like, an allowed string, instead of it.
	Pattern string `json:"pattern,omitempty"`
	Like    string `json:"example,omitempty"`
	// MinLength and MaxLength bound the number of characters in a string, or of items in a list; nil means no bound.
	MinLength *int64 `json:"minLength,omitempty"`
	MaxLength *int64 `json:"maxLength,omitempty"`
	// Unique means that a list contains each item only once.
	Unique bool `json:"unique,omitempty"`
	// Secret means that the file contains a secret. The plan must not contain the file's content.
	Secret bool `json:"secret,omitempty"`
	// Items of a list, and values of a dict, must match Of.
	Of *Attr `json:"of,omitempty"`
	// Fields are the fields of a record, in the order of the source.
	Fields []Option `json:"fields,omitempty"`
	// File and Line are the place of the declaration.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`

	compute *starlark.Function // computes the default; nil if DefaultRule is empty, or in another process
}

// A Condition holds if another option of the same record has one of the Values, strings, bools or int64.
type Condition struct {
	Option string `json:"option"`
	Values []any  `json:"values"`
	// Text describes the condition: "env is prod", "idle is 1h or 2h".
	Text string `json:"text"`
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
	attrString   = "string"
	attrFile     = "file"
	attrInt      = "int"
	attrBool     = "bool"
	attrSize     = "size"
	attrDuration = "duration"
	attrPercent  = "percent"
	attrRate     = "rate"
	attrList     = "list"
	attrDict     = "dict"
	attrRecord   = "record"
)

// attrKinds returns the types of options.
func attrKinds() []string {
	return []string{
		attrString, attrFile, attrInt, attrBool, attrSize, attrDuration, attrPercent, attrRate, attrList, attrDict,
		attrRecord,
	}
}

// deepestAttr is the maximum nesting depth of lists, dicts and records.
const deepestAttr = 8

// attrValue is an Attr in Starlark.
type attrValue struct {
	Attr
	depth  int
	column int // of the declaration
}

func (a *attrValue) String() string        { return "<attr." + a.Attr.Type + ">" }
func (a *attrValue) Type() string          { return "attr" }
func (a *attrValue) Freeze()               {}
func (a *attrValue) Truth() starlark.Bool  { return true }
func (a *attrValue) Hash() (uint32, error) { return 0, errUnhashable }

// attrModule returns the Starlark module attr. Its functions declare options.
func attrModule() *moduleValue {
	members := starlark.StringDict{}
	for _, kind := range attrKinds() {
		members[kind] = starlark.NewBuiltin("attr."+kind, declareAttr)
	}
	return &moduleValue{"attr", members}
}

// declareAttr implements all functions of the module attr. The name of the builtin determines the type.
func declareAttr(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	a := &attrValue{Attr: Attr{Type: strings.TrimPrefix(b.Name(), "attr.")}}
	if err := keywordsOnly(b, args, a.isComposed()); err != nil {
		return nil, err
	}
	if thread.CallStackDepth() > 1 {
		pos := thread.CallFrame(1).Pos
		a.File, a.Line, a.column = pos.Filename(), int(pos.Line), int(pos.Col)
	}
	var in attrArguments
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, a.parameters(&in)...); err != nil {
		return nil, explainKeyword(err, a.Attr.Type)
	}
	err := a.completeAttr(&in)
	if err == nil {
		err = a.setDefault(in.standard)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return a, nil
}

// keywordsOnly rejects positional arguments, except the first of a composed option, because a reader could not see
// their meaning.
func keywordsOnly(b *starlark.Builtin, args starlark.Tuple, composed bool) error {
	if len(args) > 1 || len(args) == 1 && !composed {
		return fmt.Errorf("%s: default, doc and the like must be given by name: %s(default = …, doc = …)",
			b.Name(), b.Name())
	}
	return nil
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
	if number, is := value.(starlark.Int); is { // in any notation
		return plainValue(number, 0)
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
		return fmt.Sprintf("it has %d letters, the maximum is %d", len(name), longestName)
	case slices.Contains(reserved, name):
		return "it has a special meaning in YAML or Starlark"
	}
	return ""
}
