package lint

import (
	"strings"

	"go.starlark.net/syntax"
)

// The rules in this file check the documentation in a module.

func moduleDocstring(m *module) {
	if len(m.file.Stmts) == 0 {
		return
	}
	if doc, ok := leadingDocstring(m.file.Stmts); !ok || strings.TrimSpace(doc) == "" {
		start, _ := m.file.Stmts[0].Span()
		m.addAt(start, "the file has no docstring that describes its purpose")
	}
}

func functionDocstring(m *module) {
	if m.isTest() {
		return // the names of tests describe them
	}
	for _, stmt := range m.file.Stmts {
		def, ok := stmt.(*syntax.DefStmt)
		if !ok || strings.HasPrefix(def.Name.Name, "_") {
			continue
		}
		if doc, ok := leadingDocstring(def.Body); !ok || strings.TrimSpace(doc) == "" {
			message := def.Name.Name + " has no docstring"
			if def.Name.Name != "launch" {
				message += "; if it is private to this file, call it _" + def.Name.Name
			}
			m.addFinding(def.Name, message)
		}
	}
}

// addAt adds a finding of one character at a place.
func (m *module) addAt(start syntax.Position, message string) {
	m.findings = append(m.findings, Finding{
		Rule: m.rule, File: m.name, Message: message,
		Line: int(start.Line), Column: int(start.Col), EndLine: int(start.Line), EndColumn: int(start.Col) + 1,
	})
}

func apiVersion(m *module) {
	if !m.isType() || m.around.Stock {
		return
	}
	for _, stmt := range m.file.Stmts {
		if assign, ok := stmt.(*syntax.AssignStmt); ok {
			for _, id := range assignedNames(assign.LHS) {
				if id.Name == "api_version" {
					return
				}
			}
		}
	}
	m.addRepairable(m.functionNamed("launch").Name,
		"the VM type does not state its version of the language; add api_version = 1", m.withVersion())
}

func findPrinting(m *module) {
	syntax.Walk(m.file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && isCall(call, "print") {
			m.addFinding(call, "print has no effect in a VM type; fail(…) ends the evaluation with a message")
		}
		return true
	})
}
