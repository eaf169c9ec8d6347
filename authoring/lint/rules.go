package lint

import "slices"

// A Rule is a check of the linter.
type Rule struct {
	// Name identifies the rule in findings and in comments that disable it.
	Name string
	// Reason explains the rule.
	Reason string
	// Bad is a module that breaks it, Good one that doesn't. Those that take more
	// than one module to show have none.
	Bad, Good string
	// AsksQEMU says that the rule is applied if QEMU is installed.
	AsksQEMU bool

	check func(*module)
}

// Rules returns all rules, in the order of the documents.
func Rules() []Rule { return slices.Clone(rules) }

// isRule reports whether there is a rule with a name.
func isRule(name string) bool {
	return slices.ContainsFunc(Rules(), func(r Rule) bool { return r.Name == name })
}
