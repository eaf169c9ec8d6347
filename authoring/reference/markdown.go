package reference

import (
	"fmt"
	"slices"
	"strings"
)

// Page returns the content of docs/vm-types/reference.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Reference\n\n" +
		"Look up everything that a [VM type](README.md) can use: [builtins](#builtins), [`vm`](#vm), [`host`](#host),\n" +
		"the [values](#values) that these return, [`testing.star`](#testing) in tests, and [Starlark's " +
		"functions](#starlark).\n" +
		"The [stock library](library.md) is on another page.\n\n" +
		"Types are written as Python type hints. `Value` is the type of a property: `str | int | bool | None | Tap |\n" +
		"Listener`, or a list of these, which repeats the property.\n\n" +
		"This page is generated from `authoring/reference` with `make generate`. Don't edit it.\n")
	b.WriteString("\n## Builtins\n")
	writeFunctions(&b, Builtins())
	writeVM(&b)
	b.WriteString("\n## Values\n")
	for _, o := range Objects() {
		if o.Name != "Host" {
			writeObject(&b, "###", o)
		}
	}
	b.WriteString("\n## `host`\n\n")
	writeFields(&b, hostObject())
	fmt.Fprintf(&b, "\n## Testing\n\nFiles named `…_test.star` can load these from `%s`.\n", TestingModule)
	writeFunctions(&b, Testing())
	for _, o := range TestingObjects() {
		writeObject(&b, "###", o)
	}
	writeLanguage(&b)
	return b.String()
}

// writeFunctions writes functions with headings. Functions of a group, such as attr, refer to the first function of the
// group for the parameters that they share with it.
func writeFunctions(b *strings.Builder, functions []Function) {
	first := map[string]Function{}
	for _, f := range functions {
		group, _, grouped := strings.Cut(f.Name, ".")
		model, found := first[group]
		switch {
		case !grouped:
		case !found:
			first[group] = f
		default:
			f = f.withoutParametersOf(model)
		}
		writeFunction(b, "###", "", f)
	}
}

// withoutParametersOf returns the function with a reference to another function instead of the descriptions that both
// share. The signature stays complete.
func (f Function) withoutParametersOf(model Function) Function {
	parameters := slices.Clone(f.Parameters)
	var shared []string
	for i, p := range parameters {
		if other, found := model.Parameter(p.Name); found && other.Doc == p.Doc {
			parameters[i].Doc = ""
			shared = append(shared, "`"+p.Name+"`")
		}
	}
	if len(shared) > 0 {
		f.Parameters = parameters
		f.Doc += "\n\nSee `" + model.Name + "` for " + strings.Join(shared, ", ") + "."
	}
	return f
}

// writeFunction writes a function with a heading. Its table omits parameters without a description.
func writeFunction(b *strings.Builder, level, of string, f Function) {
	fmt.Fprintf(b, "\n%s `%s%s`\n\n%s\n", level, of, f.Signature(), f.Doc)
	described := slices.DeleteFunc(slices.Clone(f.Parameters), func(p Parameter) bool { return p.Doc == "" })
	if len(described) > 0 {
		b.WriteString("\n| Parameter | Type | Meaning |\n|---|---|---|\n")
		for _, p := range described {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, codeCell(p.Type), escapeCell(p.Doc))
		}
	}
	if f.Result != "" && f.Result != "None" {
		fmt.Fprintf(b, "\nReturns `%s`.\n", f.Result)
	}
	if f.Example != "" {
		fmt.Fprintf(b, "\n```python\n%s```\n", f.Example)
	}
}

func writeObject(b *strings.Builder, level string, o Object) {
	fmt.Fprintf(b, "\n%s `%s`\n\n", level, o.Name)
	writeFields(b, o)
}

func writeFields(b *strings.Builder, o Object) {
	b.WriteString(o.Doc + "\n")
	if len(o.Fields) > 0 {
		b.WriteString("\n| Field | Type | Meaning |\n|---|---|---|\n")
		for _, f := range o.Fields {
			fmt.Fprintf(b, "| `.%s` | %s | %s |\n", f.Name, codeCell(f.Type), escapeCell(f.Doc))
		}
	}
	for _, m := range o.Methods {
		writeFunction(b, "####", strings.ToLower(o.Name)+".", m)
	}
}

func writeVM(b *strings.Builder) {
	b.WriteString("\n## `vm`\n\n`vm` is the vm section of the [configuration](../reference/configuration.md#the-machine), " +
		"which explains each key.\nTo look up one, run `vmrunner vmtype explain vm.network.mac`. All defaults are filled in. " +
		"Lists are tuples, sizes are bytes,\ntimes are seconds, and paths are absolute. A text or number without a default is " +
		"`\"\"` or `0`. `vm.options` contains the options\nthat the type [declares](language.md#options-of-a-type).\n" +
		"\n| Field | Type |\n|---|---|\n")
	for _, k := range VM() {
		fmt.Fprintf(b, "| `%s` | %s |\n", k.Path, codeCell(k.Type))
	}
	writeFunction(b, "###", "vm.", replaceMethod())
}

// defaultText describes the meaning of an absent key.
func (k Key) defaultText() string {
	switch {
	case k.Default == "":
		return k.Note
	case k.Note == "":
		return "`" + k.Default + "`"
	}
	return "`" + k.Default + "`: " + k.Note
}

func writeLanguage(b *strings.Builder) {
	b.WriteString("\n## Starlark\n\nThese functions are part of the language. [Its " +
		"specification](https://github.com/bazelbuild/starlark/blob/master/spec.md)\nexplains them, and the methods of " +
		"strings, lists, dicts and sets. An [editor](editors.md) shows their documentation.\n")
	for _, f := range Language() {
		fmt.Fprintf(b, "\n- `%s`", f.Signature())
	}
	b.WriteString("\n\n`print` has no effect when a VM starts, because a VM type is pure. `fail` ends the evaluation with a " +
		"message to the user\nwho configured the VM: name the problem and its remedy.\n")
}

// codeCell returns a type in backquotes for a table cell.
func codeCell(text string) string {
	if text == "" {
		return ""
	}
	return "`" + escapeCell(text) + "`"
}

// escapeCell escapes a text for a table cell.
func escapeCell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", "\\|")
}

// relinkText changes the targets of the links in a text. If the new target is "", it removes the link and keeps its
// text.
func relinkText(text string, target func(string) string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "](")
		words := strings.LastIndex(before, "[")
		link, after, closed := strings.Cut(rest, ")")
		if !ok || words < 0 || !closed {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(before[:words])
		if to := target(link); to != "" {
			fmt.Fprintf(&b, "[%s](%s)", before[words+1:], to)
		} else {
			b.WriteString(before[words+1:])
		}
		text = after
	}
}

// Plain returns Markdown without links, for output that does not support links.
func Plain(text string) string { return relinkText(text, func(string) string { return "" }) }
