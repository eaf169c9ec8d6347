package reference

import (
	"fmt"
	"path"
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
	writeFields(&b, hostObject())
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

// writeFunction writes a function with a heading.
func writeFunction(b *strings.Builder, level, of string, f Function) {
	fmt.Fprintf(b, "\n%s `%s%s`\n\n%s\n", level, of, f.Signature(), f.Doc)
	if len(f.Parameters) > 0 {
		b.WriteString("\n| Parameter | Type | Meaning |\n|---|---|---|\n")
		for _, p := range f.Parameters {
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
	b.WriteString("\n## `vm`\n\n`vm` is the vm section of the [configuration](../reference/configuration.md), with the same keys " +
		"and all defaults. Lists are tuples, sizes are\nbytes, times are seconds, and paths are absolute. A text or number " +
		"without a default is `\"\"` or `0`. `vm.options` contains\nthe options that the type " +
		"[declares](language.md#options-of-a-type).\n" +
		"\n| Field | Type | Default | Meaning |\n|---|---|---|---|\n")
	for _, k := range VM() {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.Path, codeCell(k.Type), escapeCell(k.defaultText()),
			escapeCell(relinkText(k.Doc, pageLink)))
	}
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
	b.WriteString("\n## Starlark\n\nThese functions are part of the language. For the methods of strings, lists, dicts and sets, see [its\n" +
		"specification](https://github.com/bazelbuild/starlark/blob/master/spec.md).\n" +
		"\n| Function | Returns | Meaning |\n|---|---|---|\n")
	for _, f := range Language() {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Signature(), codeCell(f.Result), escapeCell(f.Doc))
	}
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

// pageLink converts a link in docs/reference/configuration.md to a link in a page of docs/vm-types.
func pageLink(link string) string {
	if rest, here := strings.CutPrefix(link, "../vm-types/"); here {
		return rest
	}
	if strings.HasPrefix(link, "#") {
		link = "configuration.md" + link
	}
	return path.Join("../reference", link)
}

// Plain returns Markdown without links, for output that does not support links.
func Plain(text string) string { return relinkText(text, func(string) string { return "" }) }
