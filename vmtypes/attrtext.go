package vmtypes

import (
	"encoding/json"
	"fmt"
	"strings"

	"vmop/vmspec"
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
		return a.Range()
	}
	words := make([]string, len(a.Values))
	for i, v := range a.Values {
		words[i] = a.writtenValue(v)
	}
	return "one of " + strings.Join(words, ", ")
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
	if n, ok := v.(int64); ok && a.Type == attrSize {
		return vmspec.Bytes(n).String()
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

// Example returns an allowed value in the notation of a configuration, on one line.
func (a *Attr) Example() string {
	switch {
	case a.Default != nil && a.DefaultText() != "[]" && a.DefaultText() != "{}":
		return a.DefaultText()
	case a.Values != nil:
		return a.writtenValue(a.Values[0])
	case a.Minimum != nil:
		return a.writtenValue(*a.Minimum)
	case a.Maximum != nil:
		return a.writtenValue(*a.Maximum)
	}
	switch a.Type {
	case attrString:
		return "text"
	case attrFile:
		return "/srv/file"
	case attrBool:
		return "true"
	case attrSize:
		return "1 GiB"
	case attrList:
		return "[" + a.Of.Example() + "]"
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
