package vmtypes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Spelled returns a description of the type: "string", "list of int", "dict of size".
func (a *Attr) Spelled() string {
	if a.Of != nil {
		return a.Type + " of " + a.Of.Spelled()
	}
	return a.Type
}

// Limits describes the allowed values: "one of reset, poweroff", "1 to 8", "at least 1 MiB"; "" if there are no
// limits.
func (a *Attr) Limits() string {
	if a.Values == nil {
		return a.Rules()
	}
	words := make([]string, len(a.Values))
	for i, v := range a.Values {
		words[i] = a.writtenValue(v)
	}
	return "one of " + strings.Join(words, ", ")
}

// Rules describes all limits except Values: "1 to 8", "like AB-12, 8 to 64 characters"; "" if there are no limits.
func (a *Attr) Rules() string {
	var words []string
	switch {
	case a.Like != "":
		words = append(words, "like "+a.writtenValue(a.Like))
	case a.Pattern != "":
		words = append(words, "matches "+a.Pattern)
	}
	counted := "characters"
	if a.Type == attrList {
		counted = "items"
	}
	for _, text := range []string{a.counts(counted), a.Range()} {
		if text != "" {
			words = append(words, text)
		}
	}
	if a.Unique {
		words = append(words, "each item once")
	}
	return strings.Join(words, ", ")
}

// Requirement describes the conditions under which a configuration must set the option: "required if env is prod"; ""
// if there are no conditions.
func (a *Attr) Requirement() string {
	if a.RequiredIf == nil {
		return ""
	}
	words := make([]string, len(a.RequiredIf))
	for i, c := range a.RequiredIf {
		words[i] = c.Text
	}
	return "required if " + strings.Join(words, " and ")
}

// Notes describes when a configuration must or should not set the option: "required if env is prod", "a secret file",
// "deprecated: use x", "formerly y". It returns nil if there are no notes.
func (a *Attr) Notes() []string {
	var notes []string
	if a.Mandatory {
		notes = append(notes, "mandatory")
	}
	if condition := a.Requirement(); condition != "" {
		notes = append(notes, condition)
	}
	if a.Secret {
		notes = append(notes, "contains a secret")
	}
	if a.Deprecated != "" {
		notes = append(notes, "deprecated: "+a.Deprecated)
	}
	if a.Aliases != nil {
		notes = append(notes, "formerly "+strings.Join(a.Aliases, ", "))
	}
	return notes
}

// DefaultText returns the default in the notation of a configuration, on one line; "" if there is no default.
func (a *Attr) DefaultText() string {
	if a.Default == nil {
		return ""
	}
	return a.writtenValue(a.Default)
}

// writtenValue returns a value in the notation of a configuration.
func (a *Attr) writtenValue(v any) string {
	if n, ok := v.(int64); ok && a.isNumber() {
		return a.Number(n)
	}
	if text, ok := v.(string); ok && plainWord(text) {
		return text
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// ByGroup returns options in the order of forms: options without a group first, then each group, in the order of its
// first option.
func ByGroup(options []Option) []Option {
	first := map[string]int{"": -1}
	for i := range options {
		if _, known := first[options[i].Group]; !known {
			first[options[i].Group] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(options), func(a, b Option) int {
		return cmp.Compare(first[a.Group], first[b.Group])
	})
}

// CheckText returns an error if a text that a user typed is not a valid value of the option. The option must not be
// composed of other options.
func (a *Attr) CheckText(text string) error {
	_, faults := a.givenValue("", text)
	if len(faults) == 0 {
		return nil
	}
	f := faults[0]
	f.Path = ""
	return errors.New(strings.TrimPrefix(f.String(), ": "))
}

// plainWord reports whether YAML reads an unquoted word as a string.
func plainWord(s string) bool {
	return badName(strings.NewReplacer("-", "_", ".", "_", "/", "_").Replace(s)) == ""
}

// Inside returns all options within this option, at any depth. Their names are paths:
//
//   - field of a record called share: "share.source"
//   - field of the items of a list called ports: "ports[].guest"
//   - field of the values of a dict called disks: "disks.*.size"
func (o *Option) Inside() []Option {
	path, a := o.Name, &o.Attr
	for a.Of != nil {
		path += map[string]string{attrList: "[]", attrDict: ".*"}[a.Type]
		a = a.Of
	}
	var all []Option
	for _, field := range a.Fields {
		field.Name = path + "." + field.Name
		all = append(all, field)
		all = append(all, field.Inside()...)
	}
	return all
}

// mostExamples is the maximum number of items in an example.
const mostExamples = 8

// Example returns an allowed value in the notation of a configuration, on one line.
func (a *Attr) Example() string {
	switch {
	case a.Default != nil && a.DefaultText() != "[]" && a.DefaultText() != "{}":
		return a.DefaultText()
	case a.Values != nil:
		return a.writtenValue(a.Values[0])
	case a.Like != "":
		return a.writtenValue(a.Like)
	case a.Minimum != nil:
		return a.writtenValue(*a.Minimum)
	case a.Maximum != nil:
		return a.writtenValue(*a.Maximum)
	}
	switch a.Type {
	case attrString:
		return a.writtenValue(a.exampleText())
	case attrFile:
		return "/srv/file"
	case attrBool:
		return "true"
	case attrSize:
		return "1 GiB"
	case attrDuration:
		return "90s"
	case attrRate:
		return "10 MiB/s"
	case attrList:
		items := []string{a.Of.Example()}
		if a.MinLength != nil && *a.MinLength > 1 && *a.MinLength <= mostExamples {
			items = slices.Repeat(items, int(*a.MinLength))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case attrDict:
		return "{name: " + a.Of.Example() + "}"
	case attrRecord:
		var words []string
		for i := range a.Fields {
			words = append(words, a.Fields[i].Name+": "+a.Fields[i].Example())
		}
		return "{" + strings.Join(words, ", ") + "}"
	}
	return "1"
}
