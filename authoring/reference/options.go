package reference

import (
	"encoding/json"
	"fmt"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// optionRow is a table row for an option or a field of an option.
type optionRow struct{ name, form, standard, doc string }

// optionRows returns the rows for the options of a type. The fields of a record follow its row.
func (t DescribedType) optionRows() []optionRow { return rowsOf("", t.Options) }

func rowsOf(prefix string, options []vmtypes.Option) []optionRow {
	var rows []optionRow
	for _, o := range options {
		name := prefix + o.Name
		rows = append(rows, optionRow{name, OptionForm(&o.Attr), OptionDefault(&o.Attr), o.Doc})
		for inner, at := &o.Attr, name; inner != nil; inner = inner.Of {
			rows = append(rows, rowsOf(at+".", inner.Fields)...)
			at += map[string]string{"list": "[]", "dict": ".KEY"}[inner.Type]
		}
	}
	return rows
}

// OptionForm describes the allowed values of an option: "int, 1 to 8".
func OptionForm(a *vmtypes.Attr) string {
	form := a.Type
	if a.Of != nil {
		form += " of " + OptionForm(a.Of)
	}
	if a.Values != nil {
		words := make([]string, len(a.Values))
		for i, v := range a.Values {
			words[i] = "`" + valueText(a, v) + "`"
		}
		return form + ": " + strings.Join(words, ", ")
	}
	if r := a.Range(); r != "" {
		return form + ", " + r
	}
	return form
}

// OptionDefault describes the default of an option.
func OptionDefault(a *vmtypes.Attr) string {
	switch {
	case a.Mandatory:
		return "mandatory"
	case a.Default == nil:
		return "none"
	}
	return "`" + valueText(a, a.Default) + "`"
}

// valueText returns a value in the notation of a configuration.
func valueText(a *vmtypes.Attr, v any) string {
	if size, ok := v.(int64); ok && a.Type == "size" {
		return vmspec.Bytes(size).String()
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // not a value from a configuration
	}
	if s, ok := v.(string); ok && s != "" {
		return s
	}
	return string(text)
}

// OptionType returns the Starlark type of an option.
func OptionType(a *vmtypes.Attr) string {
	form := map[string]string{
		"string": "str", "file": "str", "int": "int", "size": "int", "bool": "bool", "record": "struct",
	}[a.Type]
	switch {
	case a.Type == "list":
		form = "tuple[" + OptionType(a.Of) + ", ...]"
	case a.Type == "dict":
		form = "dict[str, " + OptionType(a.Of) + "]"
	}
	return orNone(form, a.Default == nil && !a.Mandatory)
}

// optionsSchema returns the schema of vm.options.
func optionsSchema(options []vmtypes.Option) Schema {
	properties := Schema{}
	var required []string
	for _, o := range options {
		properties[o.Name] = attrSchema(&o.Attr)
		if o.Mandatory {
			required = append(required, o.Name)
		}
	}
	s := Schema{"type": []string{"object"}, "properties": properties, "additionalProperties": false}
	if required != nil {
		s["required"] = required
	} else {
		s["type"] = []string{"object", "null"}
	}
	return s
}

// attrSchema returns the schema of one option. null counts as absent.
func attrSchema(a *vmtypes.Attr) Schema {
	s := Schema{}
	switch a.Type {
	case "string", "file":
		s["type"] = []string{"string"}
	case "bool":
		s = Schema{"type": []string{"boolean", "string"}, "pattern": switchPattern}
	case "int":
		s = Schema{"type": []string{"integer", "string"}, "pattern": wholePattern}
	case "size":
		s = Schema{"type": []string{"string", "integer"}, "pattern": sizePattern}
	case "list":
		s = Schema{"type": []string{"array"}, "items": attrSchema(a.Of)}
	case "dict":
		s = Schema{"type": []string{"object"}, "additionalProperties": attrSchema(a.Of)}
	case "record":
		s = optionsSchema(a.Fields)
		s["type"] = []string{"object"}
	}
	if !a.Mandatory {
		s["type"] = append(s["type"].([]string), "null")
	}
	if a.Minimum != nil {
		s["minimum"] = *a.Minimum
	}
	if a.Maximum != nil {
		s["maximum"] = *a.Maximum
	}
	if a.Values != nil && a.Type != "size" { // sizes have several notations
		s["enum"] = append([]any{}, a.Values...)
		if a.Type == "int" {
			s["enum"] = append(s["enum"].([]any), asTexts(a.Values)...)
		}
		if !a.Mandatory {
			s["enum"] = append(s["enum"].([]any), nil)
		}
	}
	if a.Default != nil {
		s["default"] = a.Default
	}
	if a.Doc != "" {
		s["description"] = Plain(a.Doc)
	}
	return s
}

// asTexts returns the values as strings, because a configuration may quote them.
func asTexts(values []any) []any {
	texts := make([]any, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return texts
}
