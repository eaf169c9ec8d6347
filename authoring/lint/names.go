package lint

import (
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/vmtypes"
)

// The rules of this file are about names.

// unusedLoad finds names that are loaded and not used.
func unusedLoad(m *module) {
	for _, stmt := range m.file.Stmts {
		load, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		for _, id := range load.To {
			if !m.used(id) {
				m.add(id, id.Name+" is loaded and not used")
			}
		}
	}
}

// unusedVariable finds variables of functions that are never read, and what a
// module has for itself and doesn't use. Variables whose names begin with an
// underscore say so themselves.
func unusedVariable(m *module) {
	for _, stmt := range m.file.Stmts { // what begins with an underscore is only for this file
		switch s := stmt.(type) {
		case *syntax.DefStmt:
			m.unusedPrivate(s.Name)
		case *syntax.AssignStmt:
			for _, id := range targets(s.LHS) {
				m.unusedPrivate(id)
			}
		}
	}
	syntax.Walk(m.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			if n.Name.Name != "launch" { // its parameters are prescribed
				for _, p := range n.Params {
					m.unused(parameter(p), "the parameter ")
				}
			}
			m.unusedIn(n.Body)
		case *syntax.ForClause:
			m.unused(n.Vars, "the variable ")
		}
		return true
	})
}

func (m *module) unusedPrivate(id *syntax.Ident) {
	if strings.HasPrefix(id.Name, "_") && !m.used(id) {
		m.add(id, id.Name+" is private to this file and unused")
	}
}

func (m *module) unusedIn(body []syntax.Stmt) {
	for _, stmt := range body {
		switch s := stmt.(type) {
		case *syntax.AssignStmt:
			if s.Op == syntax.EQ { // else it was assigned before
				m.unused(s.LHS, "the variable ")
			}
		case *syntax.ForStmt:
			m.unused(s.Vars, "the variable ")
			m.unusedIn(s.Body)
		case *syntax.IfStmt:
			m.unusedIn(s.True)
			m.unusedIn(s.False)
		case *syntax.DefStmt:
			if !m.used(s.Name) {
				m.add(s.Name, "the function "+s.Name.Name+" is never called")
			}
		}
	}
}

// unused adds findings for what a target binds, if nothing of it is read.
func (m *module) unused(target syntax.Expr, what string) {
	ids := targets(target)
	for _, id := range ids {
		if m.used(id) {
			return // to take one part of a tuple, the others need a name
		}
	}
	for _, id := range ids {
		if !strings.HasPrefix(id.Name, "_") {
			m.add(id, what+id.Name+" is never used; if it is required, call it _"+id.Name)
		}
	}
}

// shadowing finds definitions that take the name of a builtin.
func shadowing(m *module) {
	predeclared := vmtypes.Predeclared()
	check := func(id *syntax.Ident, isGlobal bool) {
		switch {
		case predeclared.Has(id.Name):
			m.add(id, id.Name+" is a builtin function of VM types, which this definition hides")
		case isGlobal && starlark.Universe.Has(id.Name):
			m.add(id, id.Name+" is a function of Starlark, which this definition hides in this file")
		}
	}
	globals := map[*syntax.Ident]bool{}
	for _, stmt := range m.file.Stmts {
		switch s := stmt.(type) {
		case *syntax.DefStmt:
			globals[s.Name] = true
		case *syntax.AssignStmt:
			for _, id := range targets(s.LHS) {
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

// nameConventions finds functions and variables that are not written as others.
func nameConventions(m *module) {
	for id := range m.binds {
		name := strings.Trim(id.Name, "_")
		if name == "" || name == strings.ToLower(name) || name[0] >= 'A' && name[0] <= 'Z' {
			continue
		}
		m.add(id, id.Name+" should be in snake_case, "+snake(id.Name))
	}
}

// snake returns a name with underscores in place of capitals.
func snake(name string) string {
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
			m.add(id, "the name "+id.Name+" is easily confused with a digit")
		}
	}
}
