package vmtypestest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"vmop/authoring/textdiff"
)

// Limits for showing a value.
const (
	mostText  = 2000 // bytes of a value on one line
	mostLines = 400  // lines of a value on several lines
	deepest   = 8    // nested lists
)

// clipText truncates a long text.
func clipText(text string) string {
	if len(text) <= mostText {
		return text
	}
	cut := mostText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// differenceOf returns the difference between the wanted value and the actual value, one element per line; see
// Failure.Diff.
func differenceOf(want, got starlark.Value) string {
	before, after := showValue(want), showValue(got)
	hunks := textdiff.Hunks(before, after)
	if len(hunks) == 0 { // beyond the limits, or of another kind
		hunks = []textdiff.Hunk{{Lines: []textdiff.Line{
			{Sign: '-', Text: clipText(want.String())},
			{Sign: '+', Text: clipText(got.String())},
		}}}
	}
	var b strings.Builder
	for i, h := range hunks {
		if i > 0 {
			b.WriteString("@ …\n")
		}
		writeLines(&b, pairLines(h.Lines))
	}
	return b.String()
}

// mostElements is the maximum number of shown elements if no element of a list matches.
const mostElements = 20

// showElements returns the first elements of a value for Failure.Diff.
func showElements(v starlark.Value) string {
	lines := strings.Split(strings.TrimSuffix(showValue(v), "\n"), "\n")
	if n := len(lines) - mostElements; n > 2 {
		lines = append(lines[:mostElements+1], fmt.Sprintf("    … %d more", n-2))
	}
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

// showValue returns a value with one element per line. It returns a text of several lines unchanged.
func showValue(v starlark.Value) string {
	w := &valueWriter{}
	if text, ok := starlark.AsString(v); ok && strings.Contains(text, "\n") {
		for line := range strings.Lines(text) {
			w.writeLine(0, strings.TrimSuffix(line, "\n"))
		}
	} else {
		w.writeValue(0, "", v, "")
	}
	return w.b.String()
}

type valueWriter struct {
	b     strings.Builder
	lines int
}

func (w *valueWriter) writeLine(depth int, text string) {
	switch w.lines++; {
	case w.lines < mostLines:
		w.b.WriteString(strings.Repeat("    ", depth) + clipText(text) + "\n")
	case w.lines == mostLines:
		w.b.WriteString("…\n")
	}
}

// writeValue writes a value between lead, such as the key in a dict, and end.
func (w *valueWriter) writeValue(depth int, lead string, v starlark.Value, end string) {
	opening, closing, entries := splitValue(v)
	if text := v.String(); entries == nil || depth > deepest || depth > 0 && len(text) <= oneLine {
		w.writeLine(depth, lead+text+end)
		return
	}
	w.writeLine(depth, lead+opening)
	for _, e := range entries {
		if w.lines > mostLines {
			break
		}
		w.writeValue(depth+1, e.lead, e.value, ",")
	}
	w.writeLine(depth, closing+end)
}

type entry struct {
	lead  string
	value starlark.Value
}

// splitValue splits a value into its elements. It sorts a dict by keys, because equality ignores their order.
func splitValue(v starlark.Value) (opening, closing string, entries []entry) {
	switch v := v.(type) {
	case starlark.IterableMapping:
		for _, item := range v.Items() {
			entries = append(entries, entry{item[0].String() + ": ", item[1]})
		}
		slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.lead, b.lead) })
		return "{", "}", entries
	case *starlarkstruct.Struct:
		for _, name := range v.AttrNames() {
			if field, err := v.Attr(name); err == nil {
				entries = append(entries, entry{name + " = ", field})
			}
		}
		return "struct(", ")", entries
	case starlark.Tuple:
		opening, closing = "(", ")"
	case *starlark.Set:
		opening, closing = "set([", "])"
	default:
		opening, closing = "[", "]"
	}
	if list, ok := v.(starlark.Iterable); ok {
		for element := range starlark.Elements(list) {
			entries = append(entries, entry{"", element})
		}
	}
	return opening, closing, entries
}
