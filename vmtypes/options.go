package vmtypes

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/internal/printable"
	"vmop/internal/spelling"
	"vmop/vmspec"
)

// optionsGlobal is the name of the global variable with a module's options.
const optionsGlobal = "options"

// declared contains the options that a type accepts.
type declared struct {
	options []Option
	// free passes all options through unchanged, as a dict. It is set for pinned types that are older than declared
	// options.
	free bool
	// modules returns the text of a module, for messages; nil if the texts are unknown.
	modules func(name string) string
}

// source returns the text of a module, or "".
func (d declared) source(name string) string {
	if d.modules == nil {
		return ""
	}
	return d.modules(name)
}

// declaredBy returns the options that a module's globals declare.
func declaredBy(globals starlark.StringDict) (declared, error) {
	v, ok := globals[optionsGlobal]
	if !ok {
		return declared{}, nil
	}
	dict, ok := v.(*starlark.Dict)
	if !ok {
		return declared{}, fmt.Errorf("options must be a dict such as {\"name\": "+
			"attr.string(doc = …)}, not %s", withArticle(v))
	}
	options, _, err := optionsOf(dict)
	if err != nil {
		return declared{}, fmt.Errorf("options: %w", err)
	}
	return declared{options: options}, nil
}

// declarationsOf returns a module's options. Its errors contain the line of the declaration.
func declarationsOf(m *module, source func(string) string) (declared, error) {
	d, err := declaredBy(m.globals)
	d.modules = source
	var placed *Error
	switch {
	case errors.As(err, &placed):
		return d, explainError(err, source)
	case err != nil:
		return d, errorAt(globalPosition(m, optionsGlobal), err.Error(), nil, nil,
			func(string) string { return m.source })
	}
	return d, nil
}

// globalPosition returns the place of the first assignment to a global of a module.
func globalPosition(m *module, name string) syntax.Position {
	file, err := fileOptions().Parse(m.name, m.source, 0)
	if err == nil {
		for _, stmt := range file.Stmts {
			assign, ok := stmt.(*syntax.AssignStmt)
			if !ok {
				continue
			}
			if id, ok := assign.LHS.(*syntax.Ident); ok && id.Name == name {
				return id.NamePos
			}
		}
	}
	return syntax.MakePosition(&m.name, 0, 0)
}

// optionNames returns the names of options.
func optionNames(options []Option) []string {
	list := make([]string, len(options))
	for i, o := range options {
		list[i] = o.Name
	}
	return list
}

// fieldValues returns a record with the given values, and with the defaults of all other options.
func fieldValues(path, taker string, options []Option, given map[string]any) (starlark.Value, []vmspec.Fault) {
	r := &optionsRecord{record: record{name: path, names: optionNames(options)}}
	sort.Strings(r.names)
	r.values = make([]starlark.Value, len(r.names))
	var faults []vmspec.Fault
	for i := range options {
		o := &options[i]
		v, wrong := o.Attr.fieldValue(path+"."+o.Name, given[o.Name])
		r.values[sort.SearchStrings(r.names, o.Name)] = v
		faults = append(faults, wrong...)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, known := slices.BinarySearch(r.names, name); !known {
			faults = append(faults, vmspec.Fault{
				Path: path + "." + clipWord(name), Key: true,
				Message: taker + " has no such option", Hint: suggestOption(name, optionNames(options)),
			})
		}
	}
	return r, faults
}

func suggestOption(name string, known []string) string {
	if near := spelling.Nearest(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	if len(known) == 0 {
		return "it takes none"
	}
	return "it takes " + strings.Join(known, ", ")
}

// optionsRecord is a record of options. Access to an unknown option is an error with a list of the declared
// options.
type optionsRecord struct {
	record
	preceding bool // the record contains only the options before one
}

// Attr implements starlark.HasAttrs.
func (r *optionsRecord) Attr(name string) (starlark.Value, error) {
	if v, err := r.record.Attr(name); v != nil || err != nil {
		return v, err
	}
	msg := fmt.Sprintf("%s has no .%s: the type declares no options", r.name, name)
	switch list := strings.Join(r.names, ", "); {
	case r.preceding && list == "":
		msg = fmt.Sprintf("%s has no .%s: there are no preceding options", r.name, name)
	case r.preceding:
		msg = fmt.Sprintf("%s has no .%s: the preceding options are %s", r.name, name, list)
	case list != "":
		msg = fmt.Sprintf("%s has no .%s: options that the type declares are %s", r.name, name, list)
	}
	if name == "get" { // a method of dict; options were once a dict
		msg += "; an option is an attribute, vm.options.NAME"
	}
	return nil, starlark.NoSuchAttrError(msg) // the interpreter adds a suggestion
}

// fieldValue returns the given value of an option or of a record's field, otherwise the default.
func (a *Attr) fieldValue(path string, given any) (starlark.Value, []vmspec.Fault) {
	if given == nil {
		if a.Mandatory {
			return starlark.None, []vmspec.Fault{{
				Path: path, Message: "must be set",
				Hint: firstSentence(a.Doc),
			}}
		}
		given = a.Default
	}
	if given == nil {
		return starlark.None, nil
	}
	return a.givenValue(path, given)
}

// firstSentence returns the beginning of a docstring, short enough for a hint.
func firstSentence(doc string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(doc), "\n")
	first, _, _ := strings.Cut(line, ". ")
	return clipWord(strings.TrimSuffix(first, "."))
}

// givenValue checks a given value. It returns the value as the module sees it, or None and the errors.
func (a *Attr) givenValue(path string, given any) (starlark.Value, []vmspec.Fault) {
	switch a.Type {
	case attrList:
		return a.listValue(path, given)
	case attrDict:
		return a.dictValue(path, given)
	case attrRecord:
		fields, ok := given.(map[string]any)
		if !ok {
			return refuseValue(path, given, "a mapping", "")
		}
		return fieldValues(path, "it", a.Fields, fields)
	}
	v, message, hint := a.scalarValue(given)
	if message != "" {
		return starlark.None, []vmspec.Fault{{Path: path, Message: message, Hint: hint}}
	}
	if message, hint = a.outOfRange(v); message != "" {
		return starlark.None, []vmspec.Fault{{Path: path, Message: message, Hint: hint}}
	}
	switch v := v.(type) {
	case string:
		return starlark.String(v), nil
	case bool:
		return starlark.Bool(v), nil
	}
	return starlark.MakeInt64(v.(int64)), nil
}

func refuseValue(path string, given any, want, hint string) (starlark.Value, []vmspec.Fault) {
	return starlark.None, []vmspec.Fault{{
		Path: path, Message: "must be " + want + ", not " + describeValue(given),
		Hint: hint,
	}}
}

func (a *Attr) listValue(path string, given any) (starlark.Value, []vmspec.Fault) {
	items, ok := given.([]any)
	if !ok {
		return refuseValue(path, given, "a list", "")
	}
	list := make(starlark.Tuple, len(items))
	var faults []vmspec.Fault
	for i, item := range items {
		v, wrong := a.Of.givenValue(path+"["+strconv.Itoa(i)+"]", item)
		list[i] = v
		faults = append(faults, wrong...)
	}
	if message := a.wrongCount(len(list), "items"); message != "" {
		faults = append(faults, vmspec.Fault{Path: path, Message: message, Hint: a.counts("items")})
	}
	if a.Unique {
		faults = append(faults, repeatedItems(path, items, list)...)
	}
	return list, faults
}

func (a *Attr) dictValue(path string, given any) (starlark.Value, []vmspec.Fault) {
	entries, ok := given.(map[string]any)
	if !ok {
		return refuseValue(path, given, "a mapping", "")
	}
	dict := starlark.NewDict(len(entries))
	var faults []vmspec.Fault
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		v, wrong := a.Of.givenValue(path+"."+clipWord(key), entries[key])
		faults = append(faults, wrong...)
		if err := dict.SetKey(starlark.String(key), v); err != nil {
			faults = append(faults, vmspec.Fault{Path: path, Message: err.Error()})
		}
	}
	dict.Freeze()
	return dict, faults
}

// scalarValue returns a string, bool or int64, depending on the type.
func (a *Attr) scalarValue(given any) (value any, message, hint string) {
	switch a.Type {
	case attrString, attrFile:
		return readText(given)
	case attrBool:
		return readSwitch(given)
	case attrSize:
		return readSize(given)
	case attrDuration:
		return readDuration(given)
	case attrPercent:
		return readPercent(given)
	case attrRate:
		return readRate(given)
	}
	return readWhole(given)
}

// longestText is the maximum length of a text, in bytes; the vm section has the same limit.
const longestText = 8192

func readText(given any) (value any, message, hint string) {
	text, ok := given.(string)
	switch {
	case !ok:
		if _, list := given.([]any); !list {
			if _, dict := given.(map[string]any); !dict && given != nil {
				hint = "put it in quotes if it is text"
			}
		}
		return nil, "must be text, not " + describeValue(given), hint
	case len(text) > longestText:
		return nil, fmt.Sprintf("has %d bytes", len(text)), fmt.Sprintf("the maximum is %d", longestText)
	case strings.IndexFunc(text, unicode.IsControl) >= 0 || !utf8.ValidString(text):
		return nil, strconv.Quote(clipWord(text)) + " holds a control character or a line break", ""
	}
	return text, "", ""
}

// readSwitch also accepts the YAML 1.1 spellings of booleans, as for every boolean in a configuration.
func readSwitch(given any) (value any, message, hint string) {
	switch given {
	case true, "true", "yes", "on", "True", "Yes", "On":
		return true, "", ""
	case false, "false", "no", "off", "False", "No", "Off":
		return false, "", ""
	}
	return nil, "must be true or false, not " + describeValue(given), ""
}

// readWhole accepts whole numbers, with or without quotes.
func readWhole(given any) (value any, message, hint string) {
	switch n := given.(type) {
	case int:
		return int64(n), "", ""
	case int64:
		return n, "", ""
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			number := strconv.FormatFloat(n, 'f', 0, 64)
			return nil, number + " is not written as a whole number", "write " + number
		}
	case string:
		if number, err := strconv.ParseInt(n, 10, 64); err == nil && strconv.FormatInt(number, 10) == n {
			return number, "", ""
		}
	}
	return nil, "must be a whole number, not " + describeValue(given), ""
}

// readSize accepts the same notations as sizes in the vm section.
func readSize(given any) (value any, message, hint string) {
	const example = "a number and a unit, such as 8 GiB"
	var text string
	switch n := given.(type) {
	case string:
		text = n
	case int, int64, float64:
		text = fmt.Sprint(n)
	default:
		return nil, "must be a size, not " + describeValue(given), example
	}
	size, err := vmspec.ParseBytes(text)
	if err == nil {
		return int64(size), "", ""
	}
	var wrong *vmspec.SizeError
	if errors.As(err, &wrong) {
		return nil, strconv.Quote(clipWord(wrong.Size)) + ": " + wrong.Message, wrong.Hint
	}
	return nil, err.Error(), example
}

// outOfRange returns an error message and a hint if the author's limits exclude a value, otherwise "".
func (a *Attr) outOfRange(v any) (message, hint string) {
	n, number := v.(int64)
	if text, is := v.(string); is {
		if message, hint = a.wrongText(text); message != "" {
			return message, hint
		}
	}
	switch {
	case a.Values != nil && !slices.Contains(a.Values, v):
		return "can't be " + a.shownValue(v), a.suggestValue(v)
	case number && (a.Minimum != nil && n < *a.Minimum || a.Maximum != nil && n > *a.Maximum):
		return "can't be " + a.shownValue(v), a.Range()
	}
	return "", ""
}

func (a *Attr) suggestValue(v any) string {
	words := make([]string, len(a.Values))
	for i, value := range a.Values {
		words[i] = fmt.Sprint(value)
		if n, number := value.(int64); number {
			words[i] = a.Number(n)
		}
	}
	can := "it can be " + strings.Join(words, ", ")
	if text, ok := v.(string); ok {
		if near := spelling.Nearest(text, words); near != "" {
			return "did you mean " + near + "? " + strings.ToUpper(can[:1]) + can[1:]
		}
	}
	return can
}

// Range returns the bounds as text: "at least 1 MiB", "1 to 8"; "" if there are no bounds.
func (a *Attr) Range() string {
	switch {
	case a.Minimum != nil && a.Maximum != nil:
		return a.shownValue(*a.Minimum) + " to " + a.shownValue(*a.Maximum)
	case a.Minimum != nil:
		return "at least " + a.shownValue(*a.Minimum)
	case a.Maximum != nil:
		return "at most " + a.shownValue(*a.Maximum)
	}
	return ""
}

// shownValue returns a value for messages: a number with its unit, a text in quotes.
func (a *Attr) shownValue(v any) string {
	switch v := v.(type) {
	case int64:
		return a.Number(v)
	case string:
		return strconv.Quote(clipWord(v))
	}
	return fmt.Sprint(v)
}

// describeValue returns a description of a configured value for messages.
func describeValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return "the text " + strconv.Quote(clipWord(v))
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return fmt.Sprintf("the number %v", v)
}

// clipWord makes a word short and printable, for messages.
func clipWord(s string) string { return printable.Line(printable.Clip(s, 60)) }
