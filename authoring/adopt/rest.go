package adopt

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"vmop/vmtypes/plan"
)

// lineEdits returns the edits for the lines of a printed plan that are not options of QEMU. Only their removal can be
// an edit.
func (s *search) lineEdits() []edit {
	var edits []edit
	if !s.Command.IsPlan {
		return nil
	}
	for _, line := range s.unwantedLines() {
		edits = append(edits, edit{remove: []string{selectorOfLine(line)}})
	}
	return edits
}

// unwantedLines returns the lines of the plan that the printed plan lacks. If it contains a line about the same thing,
// the line has changed, which is not an edit.
func (s *search) unwantedLines() (gone []string) {
	for _, line := range s.planLines() {
		selector := selectorOfLine(line)
		if selector != "" && !slices.ContainsFunc(s.Command.Lines,
			func(l string) bool { return selectorOfLine(l) == selector }) {
			gone = append(gone, line)
		}
	}
	return gone
}

// planLines returns the lines of the plan in the form of Command.Lines.
func (s *search) planLines() []string {
	c, err := parsePlan(s.plan.Text())
	if err != nil {
		return nil
	}
	return c.Lines
}

// selectorOfLine returns the words with which replace removes a line, or "".
func selectorOfLine(line string) string {
	first, _, _ := strings.Cut(line, "\n")
	words := strings.Fields(first)
	if len(words) < 2 {
		return ""
	}
	switch words[0] {
	case "file":
		return "file " + path.Base(words[1])
	case "tap", "listen", "helper", "socket":
		return words[0] + " " + words[1]
	case "rule":
		for _, word := range words[2:] {
			key, value, _ := strings.Cut(word, "=")
			if key == "device" || key == "netdev" || key == "protocol" {
				return "rule " + words[1] + " " + value
			}
		}
		return "rule " + words[1]
	}
	return ""
}

// restOf returns everything in which the final plan differs from the command line.
func (s *search) restOf() []Rest {
	rest := slices.Clone(s.wish.rest)
	merged := map[string]int{} // properties of one option with the same reason
	for i := range s.left {
		d := &s.left[i]
		reason := cmp.Or(s.refused[d.name()], d.kept, "could not be placed")
		if d.have != nil && d.want != nil && d.key != "" {
			group := fmt.Sprint(d.from, reason)
			if at, known := merged[group]; known {
				rest[at].Option += ", " + d.change()
				continue
			}
			merged[group] = len(rest)
		}
		rest = append(rest, Rest{d.line, d.shownText(), reason})
	}
	rest = append(rest, s.restOfNames()...)
	if s.Command.IsPlan {
		rest = append(rest, s.restOfLines()...)
	}
	slices.SortStableFunc(rest, func(a, b Rest) int { return cmp.Compare(a.Line, b.Line) })
	return slices.CompactFunc(rest, func(a, b Rest) bool { return a == b })
}

// restOfNames returns the options that have other ids in the plan, and nothing else. Without Exact, they are one item,
// because ids have no effect on a guest.
func (s *search) restOfNames() (rest []Rest) {
	var names []string
	for i := range s.renamed {
		before, after := s.wish.wants[i], Want{Option: s.renamed[i]}
		if s.covered[i] || before.Text() == after.Text() {
			continue
		}
		if s.Exact {
			rest = append(rest, Rest{before.Line, before.Text(), "only names differ; the plan has " + after.Text()})
		} else if id := before.ID(); id != "" && id != after.ID() && !slices.Contains(s.missing, i) {
			names = append(names, id+" is "+after.ID())
		}
	}
	if len(names) > 0 {
		rest = append(rest, Rest{0, "ids", "the type has other names: " + strings.Join(names, ", ")})
	}
	return rest
}

// shownText returns a difference as text.
func (d *difference) shownText() string {
	switch {
	case d.have == nil:
		return Want{Option: *d.want}.Text()
	case d.want == nil:
		return Want{Option: *d.have}.Text() + " (only in the plan)"
	case d.key == "":
		return optionOf(d.want) + ": " + strings.Join(d.old, " ") + " -> " + strings.Join(d.now, " ")
	}
	return optionOf(d.want) + ": " + d.change()
}

// change returns the property and its values.
func (d *difference) change() string { return d.key + " " + textOr(d.old) + " -> " + textOr(d.now) }

func textOr(values []string) string {
	if len(values) == 0 {
		return "(none)"
	}
	return strings.Join(values, " ")
}

// optionOf returns the words that identify an option for a reader.
func optionOf(o *plan.Option) string {
	if o.Flag == "-device" || o.Flag == "-object" {
		return strings.TrimRight(o.Flag+" "+o.Value+" "+o.ID(), " ")
	}
	return strings.TrimRight(o.Flag+" "+o.ID(), " ")
}

// restOfLines returns the lines of the printed plan and of the plan that differ.
func (s *search) restOfLines() (rest []Rest) {
	have := s.planLines()
	for _, line := range s.Command.Lines {
		if !slices.Contains(have, line) {
			first, _, _ := strings.Cut(line, "\n")
			rest = append(rest, Rest{
				0, first,
				"only QEMU's options can be adopted; add it to the type, or set its field",
			})
		}
	}
	for _, line := range have {
		if !slices.Contains(s.Command.Lines, line) {
			first, _, _ := strings.Cut(line, "\n")
			rest = append(rest, Rest{0, first + " (only in the plan)", "it follows from another part of the machine"})
		}
	}
	return rest
}
