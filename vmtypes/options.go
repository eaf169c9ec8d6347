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

	"vmop/printable"
	"vmop/spelling"
	"vmop/vmspec"
)

// An OptionsError says that vm.options has faults: values that the VM type does
// not take.
type OptionsError struct {
	// Type is the name of the VM type.
	Type string
	// Faults have paths below vm.options, at least one.
	Faults []vmspec.Fault
}

// Error returns one line for each fault.
func (e *OptionsError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// optionsGlobal is the name by which a module declares options.
const optionsGlobal = "options"

// declared are the options that a type takes.
type declared struct {
	options []Option
	// free hands the options through as they are, in a dict: the type is pinned
	// from before options were declared.
	free bool
}

// declaredBy returns the options that the globals of a module declare.
func declaredBy(globals starlark.StringDict) (declared, error) {
	v, ok := globals[optionsGlobal]
	if !ok {
		return declared{}, nil
	}
	dict, ok := v.(*starlark.Dict)
	if !ok {
		return declared{}, fmt.Errorf("options is %s, want a dict of the options that the type takes: {\"name\": "+
			"attr.string(doc = …)}", article(v))
	}
	options, _, err := optionsOf(dict)
	if err != nil {
		return declared{}, fmt.Errorf("options: %w", err)
	}
	return declared{options: options}, nil
}

// declarations returns the options of a module, or an error at the line that
// declares them.
func declarations(m *module) (declared, error) {
	d, err := declaredBy(m.globals)
	if err != nil {
		return d, at(globalPosition(m, optionsGlobal), err.Error(), nil, nil, func(string) string { return m.source })
	}
	return d, nil
}

// globalPosition returns where a global of a module is assigned first.
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

// value returns vm.options as the type sees it, and the faults of what the
// configuration gives.
func (d declared) value(
	rs *records, vmType string, given map[string]any, files Files,
) (starlark.Value, []vmspec.Fault) {
	if d.free {
		return rs.value("vm.options", given), nil
	}
	given, misplaced := files.options("vm.options", d.options, given)
	v, faults := fieldValues("vm.options", "the VM type "+vmType, d.options, given)
	return v, append(misplaced, faults...)
}

// fieldValues returns a record with the given values of options, or their
// defaults.
func fieldValues(path, taker string, options []Option, given map[string]any) (starlark.Value, []vmspec.Fault) {
	r := &optionsRecord{record{name: path, names: optionNames(options)}}
	sort.Strings(r.names)
	r.values = make([]starlark.Value, len(r.names))
	var faults []vmspec.Fault
	for i := range options {
		o := &options[i]
		v, wrong := o.Attr.field(path+"."+o.Name, given[o.Name])
		r.values[sort.SearchStrings(r.names, o.Name)] = v
		faults = append(faults, wrong...)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, known := slices.BinarySearch(r.names, name); !known {
			faults = append(faults, vmspec.Fault{
				Path: path + "." + clipped(name), Key: true,
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

// optionsRecord is a record of options; a misspelt one is an error that says
// which there are.
type optionsRecord struct{ record }

// Attr implements starlark.HasAttrs.
func (r *optionsRecord) Attr(name string) (starlark.Value, error) {
	if v, err := r.record.Attr(name); v != nil || err != nil {
		return v, err
	}
	msg := fmt.Sprintf("%s has no .%s: the type declares no options", r.name, name)
	if len(r.names) > 0 {
		msg = fmt.Sprintf("%s has no .%s: options that the type declares are %s",
			r.name, name, strings.Join(r.names, ", "))
	}
	if name == "get" { // what a dict has, which options once were
		msg += "; an option is an attribute, vm.options.NAME"
	}
	return nil, starlark.NoSuchAttrError(msg) // the interpreter suggests
}

// field returns the value of an option or of a record's field: the given one or
// the default.
func (a *Attr) field(path string, given any) (starlark.Value, []vmspec.Fault) {
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
	return a.value(path, given)
}

// firstSentence is the part of a docstring that fits into a hint.
func firstSentence(doc string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(doc), "\n")
	first, _, _ := strings.Cut(line, ". ")
	return clipped(strings.TrimSuffix(first, "."))
}

// value returns a value that is given, as the module sees it, and what is wrong
// with it. The value is None if something is.
func (a *Attr) value(path string, given any) (starlark.Value, []vmspec.Fault) {
	switch a.Type {
	case attrList:
		return a.listValue(path, given)
	case attrDict:
		return a.dictValue(path, given)
	case attrRecord:
		fields, ok := given.(map[string]any)
		if !ok {
			return refuse(path, given, "a mapping", "")
		}
		return fieldValues(path, "it", a.Fields, fields)
	}
	v, message, hint := a.scalar(given)
	if message != "" {
		return starlark.None, []vmspec.Fault{{Path: path, Message: message, Hint: hint}}
	}
	if message, hint := a.outOfRange(v); message != "" {
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

func refuse(path string, given any, want, hint string) (starlark.Value, []vmspec.Fault) {
	return starlark.None, []vmspec.Fault{{Path: path, Message: "got " + describe(given) + ", want " + want, Hint: hint}}
}

func (a *Attr) listValue(path string, given any) (starlark.Value, []vmspec.Fault) {
	items, ok := given.([]any)
	if !ok {
		return refuse(path, given, "a list", "")
	}
	list := make(starlark.Tuple, len(items))
	var faults []vmspec.Fault
	for i, item := range items {
		v, wrong := a.Of.value(path+"["+strconv.Itoa(i)+"]", item)
		list[i] = v
		faults = append(faults, wrong...)
	}
	return list, faults
}

func (a *Attr) dictValue(path string, given any) (starlark.Value, []vmspec.Fault) {
	entries, ok := given.(map[string]any)
	if !ok {
		return refuse(path, given, "a mapping", "")
	}
	dict := starlark.NewDict(len(entries))
	var faults []vmspec.Fault
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		v, wrong := a.Of.value(path+"."+clipped(key), entries[key])
		faults = append(faults, wrong...)
		if err := dict.SetKey(starlark.String(key), v); err != nil {
			faults = append(faults, vmspec.Fault{Path: path, Message: err.Error()})
		}
	}
	dict.Freeze()
	return dict, faults
}

// scalar returns a string, bool or int64, as the type says.
func (a *Attr) scalar(given any) (value any, message, hint string) {
	switch a.Type {
	case attrString, attrFile:
		return readText(given)
	case attrBool:
		return readSwitch(given)
	case attrSize:
		return readSize(given)
	}
	return readWhole(given)
}

// longestText bounds what a text may hold, in bytes; as in the vm section.
const longestText = 8192

func readText(given any) (value any, message, hint string) {
	text, ok := given.(string)
	switch {
	case !ok:
		if _, list := given.([]any); !list {
			if _, dict := given.(map[string]any); !dict && given != nil {
				hint = "put it in quotes if it is one"
			}
		}
		return nil, "got " + describe(given) + ", want a text", hint
	case len(text) > longestText:
		return nil, fmt.Sprintf("has %d bytes", len(text)), fmt.Sprintf("the most is %d", longestText)
	case strings.IndexFunc(text, unicode.IsControl) >= 0 || !utf8.ValidString(text):
		return nil, strconv.Quote(clipped(text)) + " holds a control character or a line break", ""
	}
	return text, "", ""
}

// readSwitch accepts what YAML 1.1 takes for a switch as well, as everywhere in a
// configuration.
func readSwitch(given any) (value any, message, hint string) {
	switch given {
	case true, "true", "yes", "on", "True", "Yes", "On":
		return true, "", ""
	case false, "false", "no", "off", "False", "No", "Off":
		return false, "", ""
	}
	return nil, "got " + describe(given) + ", want true or false", ""
}

// readWhole accepts whole numbers, in quotes or not.
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
	return nil, "got " + describe(given) + ", want a whole number", ""
}

// readSize accepts what is a size in the vm section, too.
func readSize(given any) (value any, message, hint string) {
	const example = "a number and a unit, such as 8 GiB"
	var text string
	switch n := given.(type) {
	case string:
		text = n
	case int, int64, float64:
		text = fmt.Sprint(n)
	default:
		return nil, "got " + describe(given) + ", want a size", example
	}
	size, err := vmspec.ParseBytes(text)
	if err == nil {
		return int64(size), "", ""
	}
	var wrong *vmspec.SizeError
	if errors.As(err, &wrong) {
		return nil, strconv.Quote(clipped(wrong.Size)) + ": " + wrong.Message, wrong.Hint
	}
	return nil, err.Error(), example
}

// outOfRange says why a value is none that the author allows.
func (a *Attr) outOfRange(v any) (message, hint string) {
	n, number := v.(int64)
	switch {
	case a.Values != nil && !slices.Contains(a.Values, v):
		return "can't be " + a.shown(v), a.suggestValue(v)
	case number && (a.Minimum != nil && n < *a.Minimum || a.Maximum != nil && n > *a.Maximum):
		return "can't be " + a.shown(v), a.Range()
	}
	return "", ""
}

func (a *Attr) suggestValue(v any) string {
	words := make([]string, len(a.Values))
	for i, value := range a.Values {
		words[i] = fmt.Sprint(value)
		if a.Type == attrSize {
			words[i] = a.shown(value)
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

// Range returns the bounds in words: "at least 1 MiB", "1 to 8"; "" if there are
// none.
func (a *Attr) Range() string {
	switch {
	case a.Minimum != nil && a.Maximum != nil:
		return a.shown(*a.Minimum) + " to " + a.shown(*a.Maximum)
	case a.Minimum != nil:
		return "at least " + a.shown(*a.Minimum)
	case a.Maximum != nil:
		return "at most " + a.shown(*a.Maximum)
	}
	return ""
}

// shown returns a value in the words of a message: a size with its unit, a text
// in quotes.
func (a *Attr) shown(v any) string {
	switch v := v.(type) {
	case int64:
		if a.Type == attrSize {
			return vmspec.Bytes(v).String()
		}
	case string:
		return strconv.Quote(clipped(v))
	}
	return fmt.Sprint(v)
}

// describe names a value in the words of a message, as the reader of the
// configuration does.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return "the text " + strconv.Quote(clipped(v))
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return fmt.Sprintf("the number %v", v)
}

// clipped makes a word fit for a message: short and printable.
func clipped(s string) string { return printable.Line(printable.Clip(s, 60)) }
