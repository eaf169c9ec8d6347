package lsp

import (
	"slices"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/authoring/reference"
	"vmop/vmtypes"
)

// A tree is the syntax of a module with resolved names.
type tree struct {
	module string
	text   *text
	file   *syntax.File
}

// parseTree returns the syntax of a module, or nil if the text cannot be parsed.
func parseTree(module string, content *text) *tree {
	if len(content.content) > vmtypes.MaxModule {
		return nil // the parser does not limit the size
	}
	options := &syntax.FileOptions{Set: true}
	file, err := options.Parse(module, content.content, 0)
	if err != nil {
		return nil
	}
	predeclared := vmtypes.Predeclared()
	_ = resolve.File(file, predeclared.Has, starlark.Universe.Has) // on error, some names are still resolved
	return &tree{module, content, file}
}

// spanOf returns the span of a node.
func (t *tree) spanOf(n syntax.Node) span {
	start, end := n.Span()
	return span{t.positionAt(start), t.positionAt(end)}
}

// positionAt converts a position of the interpreter to a position of the protocol.
func (t *tree) positionAt(p syntax.Position) position {
	return t.text.columnPosition(int(p.Line), int(p.Col))
}

// topFunction returns the function with this name at the top level of the module, or nil.
func (t *tree) topFunction(name string) *syntax.DefStmt {
	for _, statement := range t.file.Stmts {
		if def, ok := statement.(*syntax.DefStmt); ok && def.Name.Name == name {
			return def
		}
	}
	return nil
}

// isType reports whether the module defines a VM type.
func (t *tree) isType() bool { return t.topFunction("launch") != nil || t.globalName("launch") != nil }

// globalName returns the identifier that defines a name at the top level of the module, by a function or an assignment.
// It returns nil if there is no such identifier.
func (t *tree) globalName(name string) *syntax.Ident {
	if def := t.topFunction(name); def != nil {
		return def.Name
	}
	for _, statement := range t.file.Stmts {
		if assign, ok := statement.(*syntax.AssignStmt); ok {
			if id, ok := assign.LHS.(*syntax.Ident); ok && id.Name == name {
				return id
			}
		}
	}
	return nil
}

// A loaded is a name from a load statement.
type loaded struct {
	module string // spelled as in the load statement
	name   string // the name in that module
}

// loadedNames returns the names that the module loads, with their sources.
func (t *tree) loadedNames() map[string]loaded {
	names := map[string]loaded{}
	for _, statement := range t.file.Stmts {
		if load, ok := statement.(*syntax.LoadStmt); ok {
			for i, to := range load.To {
				names[to.Name] = loaded{load.ModuleName(), load.From[i].Name}
			}
		}
	}
	return names
}

// bindingOf returns the first identifier of the variable at a position, or nil.
func (t *tree) bindingOf(at position) *syntax.Ident {
	var found *syntax.Ident
	syntax.Walk(t.file, func(n syntax.Node) bool {
		id, ok := n.(*syntax.Ident)
		if !ok {
			return true
		}
		if s := t.spanOf(id); s.Start.Line == at.Line && s.Start.Character <= at.Character &&
			at.Character <= s.End.Character {
			if b, ok := id.Binding.(*resolve.Binding); ok && b.First != nil {
				found = b.First
			}
		}
		return true
	})
	return found
}

// namesInScope returns the names at the module's top level, and in the functions around a line, sorted.
func (t *tree) namesInScope(line int) []string {
	seen := map[string]bool{}
	syntax.Walk(t.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			seen[n.Name.Name] = true
			s := t.spanOf(n)
			return s.Start.Line <= line && line <= s.End.Line+1
		case *syntax.Ident:
			if b, ok := n.Binding.(*resolve.Binding); ok && b.Scope != resolve.Undefined &&
				b.Scope != resolve.Predeclared && b.Scope != resolve.Universal {
				seen[n.Name] = true
			}
		}
		return true
	})
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// documentedFunction returns the documentation of a function of the module.
func (t *tree) documentedFunction(name string) (reference.Function, bool) {
	def := t.topFunction(name)
	if def == nil {
		return reference.Function{}, false
	}
	return reference.Defined(def, t.text.content), true
}
