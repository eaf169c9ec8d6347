package reference

import (
	"fmt"
	"strings"
)

// Page returns docs/vm-types/reference.md.
func Page() string {
	var b strings.Builder
	b.WriteString("# Reference\n\n" +
		"Made of the table that editors use, too (`vmop/authoring/reference`), by `make generate`; don't edit.\n\n" +
		"What a [VM type](README.md) can use: [builtins](#builtins), [`vm`](#vm), [`host`](#host), what these " +
		"[return](#values),\n" +
		"[`testing.star`](#testing) in tests, and [Starlark's own functions](#starlark). The [stock " +
		"library](library.md) has a\n" +
		"page of its own. Types are written as in Python's type hints; `Value` is what a property can be: `str | int " +
		"| bool | None | Tap |\n" +
		"Listener`, or a list of these, which repeats the property.\n")
	b.WriteString("\n## Builtins\n")
	for _, f := range Builtins() {
		writeFunction(&b, "###", "", f)
	}
	writeVM(&b)
	b.WriteString("\n## Values\n")
	for _, o := range Objects() {
		if o.Name != "Host" {
			writeObject(&b, "###", o)
		}
	}
	b.WriteString("\n## `host`\n\n")
	writeFields(&b, host())
	fmt.Fprintf(&b, "\n## Testing\n\nFiles named `…_test.star` can load these from `%s`.\n", TestingModule)
	for _, f := range Testing() {
		writeFunction(&b, "###", "", f)
	}
	for _, o := range TestingObjects() {
		writeObject(&b, "###", o)
	}
	writeLanguage(&b)
	return b.String()
}

// writeFunction writes a function under a heading of its own.
func writeFunction(b *strings.Builder, level, of string, f Function) {
	fmt.Fprintf(b, "\n%s `%s%s`\n\n%s\n", level, of, f.Signature(), f.Doc)
	if len(f.Parameters) > 0 {
		b.WriteString("\n| Parameter | Type | Meaning |\n|---|---|---|\n")
		for _, p := range f.Parameters {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, code(p.Type), cell(p.Doc))
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
			fmt.Fprintf(b, "| `.%s` | %s | %s |\n", f.Name, code(f.Type), cell(f.Doc))
		}
	}
	for _, m := range o.Methods {
		writeFunction(b, "####", strings.ToLower(o.Name)+".", m)
	}
}

func writeVM(b *strings.Builder) {
	b.WriteString("\n## `vm`\n\nThe vm section of the [configuration](../configuration.md), its keys spelled alike, " +
		"with all defaults. Lists are tuples, " +
		"sizes are bytes,\ntimes are seconds, paths are absolute. A text or number without a default is `\"\"` or " +
		"`0`. " +
		"`vm.options` has what the type [declares](language.md#options-of-a-type).\n" +
		"\n| Field | Type | Default | Meaning |\n|---|---|---|---|\n")
	for _, k := range VM() {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.Path, code(k.Type), cell(k.defaultText()),
			cell(relink(k.Doc, pageLink)))
	}
}

// defaultText says what a key that is absent means.
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
	b.WriteString("\n## Starlark\n\nThe functions of the language itself; [its specification]" +
		"(https://github.com/bazelbuild/starlark/blob/master/spec.md) has the methods of strings, lists, dicts " +
		"and sets.\n" +
		"\n| Function | Returns | Meaning |\n|---|---|---|\n")
	for _, f := range Language() {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Signature(), code(f.Result), cell(f.Doc))
	}
}

// code returns a type in backquotes, for a cell of a table.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + cell(text) + "`"
}

// cell returns a text that can stand in a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n", " "), "|", "\\|")
}

// relink changes where the links of a text lead; "" as the new target leaves
// the link's words only.
func relink(text string, target func(string) string) string {
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

// pageLink turns a link of docs/configuration.md into one of a page in
// docs/vm-types.
func pageLink(link string) string {
	switch rest, here := strings.CutPrefix(link, "vm-types/"); {
	case here:
		return rest
	case strings.HasPrefix(link, "#"):
		return "../configuration.md" + link
	}
	return "../" + link
}

// Plain returns Markdown without links, for output in which they cannot be followed.
func Plain(text string) string { return relink(text, func(string) string { return "" }) }
