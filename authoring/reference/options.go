package reference

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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
		rows = append(rows, optionRow{name, OptionForm(&o.Attr), OptionDefault(&o.Attr), optionDoc(&o.Attr)})
		for inner, at := &o.Attr, name; inner != nil; inner = inner.Of {
			rows = append(rows, rowsOf(at+".", inner.Fields)...)
			at += map[string]string{"list": "[]", "dict": ".KEY"}[inner.Type]
		}
	}
	return rows
}

// optionDoc returns the description of an option, with the notes that the other columns of its row lack.
func optionDoc(a *vmtypes.Attr) string {
	doc := a.Doc
	for _, note := range a.Notes() {
		if note != "mandatory" {
			doc = strings.TrimSpace(doc+" "+strings.ToUpper(note[:1])+note[1:]) + "."
		}
	}
	return doc
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
	if rules := a.Rules(); rules != "" {
		return form + ", " + rules
	}
	return form
}

// OptionDefault describes the default of an option.
func OptionDefault(a *vmtypes.Attr) string {
	switch {
	case a.Mandatory:
		return "mandatory"
	case a.DefaultRule != "":
		return a.DefaultRule
	case a.Default == nil:
		return "none"
	}
	return "`" + valueText(a, a.Default) + "`"
}

// valueText returns a value in the notation of a configuration.
func valueText(a *vmtypes.Attr, v any) string {
	if n, ok := v.(int64); ok {
		return a.Number(n)
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
		"string": "str", "file": "str", "int": "int", "size": "int", "duration": "int", "percent": "int", "rate": "int",
		"bool": "bool", "record": "struct",
	}[a.Type]
	switch {
	case a.Type == "list":
		form = "tuple[" + OptionType(a.Of) + ", ...]"
	case a.Type == "dict":
		form = "dict[str, " + OptionType(a.Of) + "]"
	}
	return orNone(form, a.Default == nil && a.DefaultRule == "" && !a.Mandatory)
}

// optionsSchema returns the schema of vm.options. Former names are properties as well.
func optionsSchema(options []vmtypes.Option) Schema {
	properties := Schema{}
	var required []string
	var conditions []Schema
	for i := range options {
		o := &options[i]
		properties[o.Name] = attrSchema(&o.Attr)
		for _, alias := range o.Aliases {
			former := attrSchema(&o.Attr)
			former["deprecated"], former["description"] = true, "Former name of "+o.Name+"."
			properties[alias] = former
			conditions = append(conditions, Schema{"not": Schema{"required": []string{alias, o.Name}}})
		}
		switch {
		case o.Mandatory && o.Aliases == nil:
			required = append(required, o.Name)
		case o.Mandatory:
			conditions = append(conditions, requiredSchema(o))
		case o.RequiredIf != nil:
			conditions = append(conditions, Schema{
				"if": conditionSchema(o.RequiredIf, options), "then": requiredSchema(o),
			})
		}
	}
	s := Schema{"type": []string{"object"}, "properties": properties, "additionalProperties": false}
	if conditions != nil {
		s["allOf"] = conditions
	}
	if required != nil {
		s["required"] = required
	} else {
		s["type"] = []string{"object", "null"}
	}
	return s
}

// requiredSchema returns a schema for objects that set an option, by its name or by a former name.
func requiredSchema(o *vmtypes.Option) Schema {
	set := func(name string) Schema {
		return Schema{"required": []string{name}, "properties": Schema{name: Schema{"not": Schema{"type": "null"}}}}
	}
	all := []Schema{set(o.Name)}
	for _, alias := range o.Aliases {
		all = append(all, set(alias))
	}
	return Schema{"anyOf": all}
}

// conditionSchema returns a schema for objects that fulfill the conditions of required_if. A default that a function
// computes counts as another value, and so does a number in another notation.
func conditionSchema(conditions []vmtypes.Condition, options []vmtypes.Option) Schema {
	var all []Schema
	for _, c := range conditions {
		at := slices.IndexFunc(options, func(o vmtypes.Option) bool { return o.Name == c.Option })
		if at < 0 {
			continue
		}
		is := Schema{"properties": Schema{c.Option: Schema{"enum": c.Values}}}
		if !slices.Contains(c.Values, options[at].Default) {
			is["required"] = []string{c.Option}
		} else {
			values := append([]any{nil}, c.Values...)
			is["properties"] = Schema{c.Option: Schema{"enum": values}}
		}
		all = append(all, is)
	}
	return Schema{"type": "object", "allOf": all}
}

// kindSchema returns the schema for values of an option's type.
func kindSchema(a *vmtypes.Attr) Schema {
	switch a.Type {
	case "bool":
		return Schema{"type": []string{"boolean", "string"}, "pattern": switchPattern}
	case "int":
		return Schema{"type": []string{"integer", "string"}, "pattern": wholePattern}
	case "size":
		return Schema{"type": []string{"string", "integer"}, "pattern": sizePattern}
	case "duration":
		return Schema{"type": []string{"string", "number"}, "pattern": durationPattern}
	case "percent":
		return Schema{"type": []string{"string", "integer"}, "pattern": percentPattern}
	case "rate":
		return Schema{"type": []string{"string", "integer"}, "pattern": ratePattern}
	case "list":
		return Schema{"type": []string{"array"}, "items": attrSchema(a.Of)}
	case "dict":
		return Schema{"type": []string{"object"}, "additionalProperties": attrSchema(a.Of)}
	case "record":
		s := optionsSchema(a.Fields)
		s["type"] = []string{"object"}
		return s
	}
	return Schema{"type": []string{"string"}}
}

// attrSchema returns the schema of one option. null counts as absent.
func attrSchema(a *vmtypes.Attr) Schema {
	s := kindSchema(a)
	if !a.Mandatory {
		s["type"] = append(s["type"].([]string), "null")
	}
	if a.Minimum != nil {
		s["minimum"] = *a.Minimum
	}
	if a.Maximum != nil {
		s["maximum"] = *a.Maximum
	}
	if a.Pattern != "" {
		s["pattern"] = "^(?:" + a.Pattern + ")$"
	}
	least, most := "minLength", "maxLength"
	if a.Type == "list" {
		least, most = "minItems", "maxItems"
	}
	if a.MinLength != nil {
		s[least] = *a.MinLength
	}
	if a.MaxLength != nil {
		s[most] = *a.MaxLength
	}
	if a.Unique {
		s["uniqueItems"] = true
	}
	if a.Values != nil && (a.Type == "string" || a.Type == "int") { // other numbers have several notations
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
	if a.Like != "" {
		s["examples"] = []any{a.Like}
	}
	if a.Deprecated != "" {
		s["deprecated"] = true
	}
	if a.Label != "" {
		s["title"] = a.Label
	}
	if doc := optionDoc(a); doc != "" {
		s["description"] = Plain(doc)
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
