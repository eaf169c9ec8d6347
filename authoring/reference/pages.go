package reference

import (
	"fmt"
	"strings"
)

// LibraryPage returns the content of docs/vm-types/library.md for the modules of the library.
func LibraryPage(modules []Module) string {
	var b strings.Builder
	b.WriteString("# The stock library\n\nLook up the modules and functions that your VM types can load.\n" +
		"Load a module by the name in its heading. [VM types](README.md) explains parts and options.\n\n" +
		"This page is generated from the docstrings in `vmtypes/` with `make generate`. Don't edit it.\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "\n## `%s`\n", m.Name)
		writeModule(&b, m)
	}
	return b.String()
}

// writeModule writes the documentation of a module, below a heading.
func writeModule(b *strings.Builder, m Module) {
	if m.Doc != "" {
		fmt.Fprintf(b, "\n%s\n", m.Doc)
	}
	for _, f := range m.Functions {
		fmt.Fprintf(b, "\n- `%s`", f.Signature())
		if f.Doc != "" {
			b.WriteString("  \n  " + strings.ReplaceAll(f.Doc, "\n", "\n  "))
		}
		for _, p := range f.Parameters {
			if p.Doc != "" {
				fmt.Fprintf(b, "\n  - `%s`: %s", p.Name, p.Doc)
			}
		}
		b.WriteString("\n")
	}
}

// TypesPage returns a Markdown page about VM types.
func TypesPage(types []DescribedType) string {
	var b strings.Builder
	level := "##"
	if len(types) == 1 {
		fmt.Fprintf(&b, "# %s\n", types[0].Name)
	} else {
		level = "###"
		b.WriteString("# VM types\n\n| Type | |\n|---|---|\n")
		for _, t := range types {
			fmt.Fprintf(&b, "| [%s](#%[1]s) | %s |\n", t.Name, escapeCell(t.Summary()))
		}
	}
	for _, t := range types {
		if len(types) > 1 {
			fmt.Fprintf(&b, "\n## %s\n", t.Name)
		}
		if t.Module.Doc != "" {
			fmt.Fprintf(&b, "\n%s\n", t.Module.Doc)
		}
		writeOptions(&b, level, t)
		if len(t.Module.Functions) > 0 {
			fmt.Fprintf(&b, "\n%s Functions\n", level)
			writeModule(&b, Module{Functions: t.Module.Functions})
		}
	}
	return b.String()
}

// Summary returns a one-sentence description of the type: the first sentence of its docstring, without its name.
func (t DescribedType) Summary() string {
	return strings.TrimPrefix(Summary(t.Module.Doc), t.Name+": ")
}

func writeOptions(b *strings.Builder, level string, t DescribedType) {
	rows := t.optionRows()
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s Options\n\nIn `vm.options` of a configuration.\n\n| Option | Type | Default | Meaning "+
		"|\n|---|---|---|---|\n", level)
	for _, o := range rows {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", o.name, escapeCell(o.form), escapeCell(o.standard),
			escapeCell(o.doc))
	}
}
