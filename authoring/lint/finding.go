package lint

import (
	"cmp"
	"fmt"
	"slices"
)

// A Finding is a violation of a rule.
type Finding struct {
	// Rule is the name of the rule.
	Rule string `json:"rule"`
	// File is the module, as named by the caller.
	File string `json:"file"`
	// Line and Column are the beginning of the place; EndLine and EndColumn are the position after its end. All count
	// from 1, columns in characters.
	Line      int `json:"line"`
	Column    int `json:"column"`
	EndLine   int `json:"endLine"`
	EndColumn int `json:"endColumn"`
	// Message describes the mistake and how to correct it.
	Message string `json:"message"`
	// Repair corrects the mistake; nil if this needs the author.
	Repair *Repair `json:"repair,omitempty"`
}

// String returns "file:line:col: rule: message".
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", f.File, f.Line, f.Column, f.Rule, f.Message)
}

// Equals reports whether two findings are the same, regardless of their repairs.
func (f Finding) Equals(other Finding) bool {
	f.Repair, other.Repair = nil, nil
	return f == other
}

// Sort sorts findings by file and line, and removes duplicates.
func Sort(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(findings, func(a, b Finding) bool {
		return a.File == b.File && a.Line == b.Line && a.Rule == b.Rule && a.Message == b.Message
	})
}
