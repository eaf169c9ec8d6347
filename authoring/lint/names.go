package lint

import (
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/vmtypes"
)

// The rules in this file check names.

// unusedLoad finds loaded names that are not used.
func unusedLoad(m *module) {
	for _, stmt := range m.file.Stmts {
		load, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		for _, id := range load.To {
			if !m.isUsed(id) {
				m.addRepairable(id, id.Name+" is loaded and not used", m.withoutLoad(load, id))
			}
		}
	}
}

// unusedVariable finds variables of functions that are never read, and private globals that the module does not use. It
// ignores variables of functions with names that begin with an underscore, which marks them as unused.
func unusedVariable(m *module) {
	for _, stmt := range m.file.Stmts { // globals with an underscore are private to the module
		switch s := stmt.(type) {
		case *syntax.DefStmt:
			m.unusedPrivate(s.Name)
		case *syntax.AssignStmt:
			for _, id := range assignedNames(s.LHS) {
				m.unusedPrivate(id)
			}
		}
	}
	syntax.Walk(m.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			if n.Name.Name != "launch" { // the parameters of launch are fixed
				for _, p := range n.Params {
					m.reportUnused(parameterName(p), "the parameter ")
				}
			}
			m.unusedIn(n.Body)
		case *syntax.ForClause:
			m.reportUnused(n.Vars, "the variable ")
		}
		return true
	})
}

func (m *module) unusedPrivate(id *syntax.Ident) {
	if strings.HasPrefix(id.Name, "_") && !m.isUsed(id) {
		m.addFinding(id, id.Name+" is private to this file and unused")
	}
}

func (m *module) unusedIn(body []syntax.Stmt) {
	for _, stmt := range body {
		switch s := stmt.(type) {
		case *syntax.AssignStmt:
			if s.Op == syntax.EQ { // other operators change an existing variable
				m.reportUnused(s.LHS, "the variable ")
			}
		case *syntax.ForStmt:
			m.reportUnused(s.Vars, "the variable ")
			m.unusedIn(s.Body)
		case *syntax.IfStmt:
			m.unusedIn(s.True)
			m.unusedIn(s.False)
		case *syntax.DefStmt:
			if !m.isUsed(s.Name) {
				m.addFinding(s.Name, "the function "+s.Name.Name+" is never called")
			}
		}
	}
}

// reportUnused adds findings for the names in a target, if none of them is read.
func (m *module) reportUnused(target syntax.Expr, what string) {
	ids := assignedNames(target)
	for _, id := range ids {
		if m.isUsed(id) {
			return // to use one element of a tuple, the other elements need names
		}
	}
	for _, id := range ids {
		if !strings.HasPrefix(id.Name, "_") {
			m.addFinding(id, what+id.Name+" is never used; if it is required, call it _"+id.Name)
		}
	}
}

// findShadowing finds definitions that hide a builtin.
func findShadowing(m *module) {
	predeclared := vmtypes.Predeclared()
	check := func(id *syntax.Ident, isGlobal bool) {
		switch {
		case predeclared.Has(id.Name):
			m.addFinding(id, id.Name+" is a builtin function of VM types, which this definition hides")
		case isGlobal && starlark.Universe.Has(id.Name):
			m.addFinding(id, id.Name+" is a function of Starlark, which this definition hides in this file")
		}
	}
	globals := map[*syntax.Ident]bool{}
	for _, stmt := range m.file.Stmts {
		switch s := stmt.(type) {
		case *syntax.DefStmt:
			globals[s.Name] = true
		case *syntax.AssignStmt:
			for _, id := range assignedNames(s.LHS) {
				globals[id] = true
			}
		case *syntax.LoadStmt:
			for _, id := range s.To {
				globals[id] = true
			}
		}
	}
	for id := range m.binds {
		check(id, globals[id])
	}
}

// nameConventions finds functions and variables with names that violate the conventions.
func nameConventions(m *module) {
	for id := range m.binds {
		name := strings.Trim(id.Name, "_")
		if name == "" || name == strings.ToLower(name) || name[0] >= 'A' && name[0] <= 'Z' {
			continue
		}
		m.addFinding(id, id.Name+" should be in snake_case, "+snakeCase(id.Name))
	}
}

// snakeCase returns a name with underscores instead of capital letters.
func snakeCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// confusingName finds names that look like a digit.
func confusingName(m *module) {
	for id := range m.binds {
		if id.Name == "l" || id.Name == "I" || id.Name == "O" {
			m.addFinding(id, "the name "+id.Name+" is easily confused with a digit")
		}
	}
}
