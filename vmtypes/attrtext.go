package vmtypes

import (
	"encoding/json"
	"fmt"
	"strings"

	"vmop/vmspec"
)

// Spelled returns the type in words: "string", "list of int", "dict of size".
func (a *Attr) Spelled() string {
	if a.Of != nil {
		return a.Type + " of " + a.Of.Spelled()
	}
	return a.Type
}

// Limits returns what restricts the values, in words: "one of reset, poweroff",
// "1 to 8", "at least 1 MiB"; "" if nothing does.
func (a *Attr) Limits() string {
	if a.Values == nil {
		return a.Range()
	}
	words := make([]string, len(a.Values))
	for i, v := range a.Values {
		words[i] = a.written(v)
	}
	return "one of " + strings.Join(words, ", ")
}

// DefaultText returns the default as a configuration would say it, on one line;
// "" if there is none.
func (a *Attr) DefaultText() string {
	if a.Default == nil {
		return ""
	}
	return a.written(a.Default)
}

// written returns a value as a configuration would say it.
func (a *Attr) written(v any) string {
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

// plainWord reports whether YAML reads a word as the text it is.
func plainWord(s string) bool {
	return badName(strings.NewReplacer("-", "_", ".", "_", "/", "_").Replace(s)) == ""
}

// Inside returns the options that are part of this one, at any depth, with their
// paths: for a record called share, "share.source"; of each item of a list
// called ports, "ports[].guest"; of each value of a dict, "disks.*.size".
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

// Example returns a value that the option may have, as a configuration would say
// it on one line.
func (a *Attr) Example() string {
	switch {
	case a.Default != nil && a.DefaultText() != "[]" && a.DefaultText() != "{}":
		return a.DefaultText()
	case a.Values != nil:
		return a.written(a.Values[0])
	case a.Minimum != nil:
		return a.written(*a.Minimum)
	case a.Maximum != nil:
		return a.written(*a.Maximum)
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
