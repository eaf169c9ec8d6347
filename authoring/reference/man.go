package reference

import (
	"fmt"
	"strings"
)

// ManPage returns a page about VM types for man, section 7.
func ManPage(types []DescribedType) string {
	var b strings.Builder
	title, summary := "vmtypes", "VM types of vmrunner"
	if len(types) == 1 {
		title, summary = "vmtype-"+types[0].Name, types[0].Summary()
	}
	fmt.Fprintf(&b, ".TH %s 7 \"\" vmrunner \"VM types\"\n.SH NAME\n%s \\- %s\n", roffWord(strings.ToUpper(title)),
		escapeRoff(title), escapeRoff(summary))
	for _, t := range types {
		if len(types) > 1 {
			fmt.Fprintf(&b, ".SH %s\n", roffWord(strings.ToUpper(t.Name)))
		} else {
			b.WriteString(".SH DESCRIPTION\n")
		}
		roffText(&b, t.Module.Doc)
		roffOptions(&b, t, len(types) > 1)
		roffFunctions(&b, t.Module.Functions, len(types) > 1)
	}
	b.WriteString(".SH SEE ALSO\n.BR vmrunner (1),\n.BR qemu (1)\n")
	return b.String()
}

// roffHead writes a heading, or a subheading if it is below the heading of a type.
func roffHead(b *strings.Builder, name string, below bool) {
	if below {
		fmt.Fprintf(b, ".SS %s\n", name)
		return
	}
	fmt.Fprintf(b, ".SH %s\n", strings.ToUpper(name))
}

func roffOptions(b *strings.Builder, t DescribedType, below bool) {
	rows := t.optionRows()
	if len(rows) == 0 {
		return
	}
	roffHead(b, "Options", below)
	b.WriteString("In vm.options of a configuration:\n")
	for _, o := range rows {
		fmt.Fprintf(b, ".TP\n.BI %s \" %s\"\n", roffWord(o.name), strings.ReplaceAll(escapeRoff(o.form), `"`, `""`))
		roffText(b, o.doc)
		if o.standard != "" {
			fmt.Fprintf(b, ".br\nDefault: %s\n", escapeRoff(o.standard))
		}
	}
}

func roffFunctions(b *strings.Builder, functions []Function, below bool) {
	if len(functions) == 0 {
		return
	}
	roffHead(b, "Functions", below)
	for _, f := range functions {
		fmt.Fprintf(b, ".TP\n.B %s\n", roffWord(f.Signature()))
		roffText(b, f.Doc)
		for _, p := range f.Parameters {
			if p.Doc != "" {
				fmt.Fprintf(b, ".br\n%s: %s\n", escapeRoff(p.Name), escapeRoff(p.Doc))
			}
		}
	}
}

// roffText writes Markdown: paragraphs, indented code, lists.
func roffText(b *strings.Builder, text string) {
	code := false
	for line := range strings.SplitSeq(Plain(text), "\n") {
		indented := strings.HasPrefix(line, "    ")
		switch {
		case indented && !code:
			b.WriteString(".PP\n.EX\n")
		case !indented && code && strings.TrimSpace(line) != "":
			b.WriteString(".EE\n.PP\n")
		}
		code = indented || code && strings.TrimSpace(line) == ""
		item, list := strings.CutPrefix(line, "- ")
		switch {
		case code:
			b.WriteString(escapeRoff(line) + "\n")
		case strings.TrimSpace(line) == "":
			b.WriteString(".PP\n")
		case list:
			b.WriteString(".IP \\(bu 2\n" + escapeRoff(item) + "\n")
		default:
			b.WriteString(escapeRoff(strings.TrimSpace(line)) + "\n")
		}
	}
	if code {
		b.WriteString(".EE\n")
	}
}

// escapeRoff escapes a text so that roff does not interpret it. Text in backquotes becomes bold.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "\n", " ").Replace(text)
	var b strings.Builder
	for i, piece := range strings.Split(text, "`") {
		if i > 0 {
			b.WriteString([]string{`\fR`, `\fB`}[i%2])
		}
		b.WriteString(piece)
	}
	if text = b.String(); strings.HasPrefix(text, ".") {
		return `\&` + text
	}
	return text
}

// roffWord returns a text as one argument of a command.
func roffWord(text string) string {
	return `"` + strings.ReplaceAll(escapeRoff(text), `"`, `""`) + `"`
}
