package lint

import "slices"

// A Rule is a check of the linter.
type Rule struct {
	// Name identifies the rule in findings and in comments that disable it.
	Name string
	// Reason explains the rule.
	Reason string
	// Bad is a module that violates the rule; Good is a module that follows it. Both are empty if an example would need
	// several modules.
	Bad, Good string
	// AsksQEMU means that the rule only applies if QEMU is installed.
	AsksQEMU bool

	check func(*module)
}

// Rules returns all rules, in the order of the documentation.
func Rules() []Rule { return slices.Clone(rules) }

// isRule reports whether a rule with this name exists.
func isRule(name string) bool {
	return slices.ContainsFunc(Rules(), func(r Rule) bool { return r.Name == name })
}
