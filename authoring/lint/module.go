package lint

import (
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/vmtypes"
)

// Surroundings is the environment of a module.
type Surroundings struct {
	// Read returns the source of another module, named as in load statements. It may be nil.
	Read func(module string) (string, error)
	// QEMU is the installed QEMU. If it is nil, the rules that query QEMU are not applied.
	QEMU QEMU
	// Stock means that the module is part of vmrunner.
	Stock bool
}

// File returns the findings of the rules in a module called name. A module that cannot be parsed has no findings;
// parsing it reports the error.
func File(name, source string, around Surroundings) []Finding {
	m := parseModule(name, source)
	if m == nil {
		return nil
	}
	m.around = around
	for _, r := range rules {
		if r.check != nil {
			m.rule = r.Name
			r.check(m)
		}
	}
	m.rule = "unknown-rule"
	unknownRules(m)
	return Sort(m.allowedFindings())
}

// module is a module that rules check.
type module struct {
	name, source string
	around       Surroundings
	file         *syntax.File
	// binds are the identifiers that assign a variable. uses counts the reads of a variable, by its first identifier.
	binds map[*syntax.Ident]bool
	uses  map[*syntax.Ident]int

	rule     string // the rule that is being checked
	findings []Finding
}

// parseModule returns a module, or nil if it cannot be parsed.
func parseModule(name, source string) *module {
	options := &syntax.FileOptions{Set: true}
	file, err := options.Parse(name, source, syntax.RetainComments)
	if err != nil {
		return nil
	}
	m := &module{name: name, source: source, file: file, binds: map[*syntax.Ident]bool{}, uses: map[*syntax.Ident]int{}}
	predeclared := vmtypes.Predeclared()
	universal := func(name string) bool { return starlark.Universe.Has(name) }
	if err := resolve.File(file, predeclared.Has, universal); err != nil {
		return nil
	}
	m.countUses()
	return m
}

// isTest reports whether the module is a file of tests.
func (m *module) isTest() bool { return strings.HasSuffix(m.name, "_test.star") }

// functionNamed returns the module's function with this name, or nil.
func (m *module) functionNamed(name string) *syntax.DefStmt {
	for _, stmt := range m.file.Stmts {
		if def, ok := stmt.(*syntax.DefStmt); ok && def.Name.Name == name {
			return def
		}
	}
	return nil
}

// isType reports whether the module defines a VM type.
func (m *module) isType() bool { return m.functionNamed("launch") != nil && !m.isTest() }

// addFinding adds a finding at a node.
func (m *module) addFinding(n syntax.Node, message string) { m.addRepairable(n, message, nil) }

// addRepairable adds a finding at a node, with its repair, which may be nil.
func (m *module) addRepairable(n syntax.Node, message string, repair *Repair) {
	start, end := n.Span()
	m.findings = append(m.findings, Finding{
		Rule: m.rule, File: m.name, Message: message, Repair: repair,
		Line: int(start.Line), Column: int(start.Col), EndLine: int(end.Line), EndColumn: int(end.Col),
	})
}

// countUses determines which identifiers assign a variable and which read it.
func (m *module) countUses() {
	bind := func(target syntax.Expr) {
		for _, id := range assignedNames(target) {
			m.binds[id] = true
		}
	}
	syntax.Walk(m.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.AssignStmt:
			bind(n.LHS)
		case *syntax.ForStmt:
			bind(n.Vars)
		case *syntax.ForClause:
			bind(n.Vars)
		case *syntax.LoadStmt:
			for _, id := range n.To {
				m.binds[id] = true
			}
		case *syntax.DefStmt:
			m.binds[n.Name] = true
			for _, p := range n.Params {
				bind(parameterName(p))
			}
		case *syntax.LambdaExpr:
			for _, p := range n.Params {
				bind(parameterName(p))
			}
		}
		return true
	})
	syntax.Walk(m.file, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok && !m.binds[id] {
			if b, ok := id.Binding.(*resolve.Binding); ok && b.First != nil {
				m.uses[b.First]++
			}
		}
		return true
	})
}

// isUsed reports whether the variable that an identifier binds is read anywhere.
func (m *module) isUsed(id *syntax.Ident) bool {
	b, ok := id.Binding.(*resolve.Binding)
	return !ok || b.First == nil || m.uses[b.First] > 0
}

// assignedNames returns the identifiers that an assignment to an expression binds.
func assignedNames(e syntax.Expr) []*syntax.Ident {
	switch e := e.(type) {
	case *syntax.Ident:
		return []*syntax.Ident{e}
	case *syntax.ParenExpr:
		return assignedNames(e.X)
	case *syntax.TupleExpr:
		return namesOf(e.List)
	case *syntax.ListExpr:
		return namesOf(e.List)
	}
	return nil
}

func namesOf(list []syntax.Expr) []*syntax.Ident {
	var ids []*syntax.Ident
	for _, e := range list {
		ids = append(ids, assignedNames(e)...)
	}
	return ids
}

// parameterName returns the name of a parameter, or nil for a bare star.
func parameterName(p syntax.Expr) syntax.Expr {
	switch p := p.(type) {
	case *syntax.BinaryExpr:
		return p.X
	case *syntax.UnaryExpr:
		return p.X
	}
	return p
}

// allowedFindings returns the findings without those that a comment disables.
func (m *module) allowedFindings() []Finding {
	silences := m.silencesOf()
	return slices.DeleteFunc(m.findings, func(f Finding) bool {
		return slices.ContainsFunc(silences, func(s silence) bool {
			return slices.Contains(s.rules, f.Rule) && f.Line >= s.first && f.Line <= s.last
		})
	})
}

// leadingDocstring returns the string at the beginning of a body.
func leadingDocstring(body []syntax.Stmt) (string, bool) {
	if len(body) == 0 {
		return "", false
	}
	stmt, ok := body[0].(*syntax.ExprStmt)
	if !ok {
		return "", false
	}
	return literalText(stmt.X)
}

// literalText returns the value of a literal string.
func literalText(e syntax.Expr) (string, bool) {
	literal, ok := e.(*syntax.Literal)
	if !ok {
		return "", false
	}
	s, ok := literal.Value.(string)
	return s, ok && literal.Token == syntax.STRING
}

// loadedNames returns the names of the modules that the module loads.
func (m *module) loadedNames() []string {
	var list []string
	for _, stmt := range m.file.Stmts {
		if load, ok := stmt.(*syntax.LoadStmt); ok {
			list = append(list, load.ModuleName())
		}
	}
	return list
}
