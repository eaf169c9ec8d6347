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

// parse returns nil for a text that can't be parsed.
func parse(module string, content *text) *tree {
	if len(content.content) > vmtypes.MaxModule {
		return nil // the parser has no bound of its own
	}
	options := &syntax.FileOptions{Set: true}
	file, err := options.Parse(module, content.content, 0)
	if err != nil {
		return nil
	}
	predeclared := vmtypes.Predeclared()
	_ = resolve.File(file, predeclared.Has, starlark.Universe.Has) // what could be resolved is
	return &tree{module, content, file}
}

// span returns where a node is.
func (t *tree) span(n syntax.Node) span {
	start, end := n.Span()
	return span{t.at(start), t.at(end)}
}

// at returns a place of the interpreter's as one of the protocol's.
func (t *tree) at(p syntax.Position) position { return t.text.column(int(p.Line), int(p.Col)) }

// def returns the function of this name at the top of the module.
func (t *tree) def(name string) *syntax.DefStmt {
	for _, statement := range t.file.Stmts {
		if def, ok := statement.(*syntax.DefStmt); ok && def.Name.Name == name {
			return def
		}
	}
	return nil
}

// launches reports whether the module is a type.
func (t *tree) launches() bool { return t.def("launch") != nil || t.global("launch") != nil }

// global returns where a name is defined at the top of the module: a function,
// or what is assigned.
func (t *tree) global(name string) *syntax.Ident {
	if def := t.def(name); def != nil {
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

// A loaded name is one that a load statement brings.
type loaded struct {
	module string // as load spells it there
	name   string // in that module
}

// loads returns the names that the module loads, and where they are from.
func (t *tree) loads() map[string]loaded {
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

// binding returns where the name at a position was bound first, and what it is.
func (t *tree) binding(at position) *syntax.Ident {
	var found *syntax.Ident
	syntax.Walk(t.file, func(n syntax.Node) bool {
		id, ok := n.(*syntax.Ident)
		if !ok {
			return true
		}
		if s := t.span(id); s.Start.Line == at.Line && s.Start.Character <= at.Character &&
			at.Character <= s.End.Character {
			if b, ok := id.Binding.(*resolve.Binding); ok && b.First != nil {
				found = b.First
			}
		}
		return true
	})
	return found
}

// names returns what the module's top level binds, and what is bound in the
// functions around a line, sorted.
func (t *tree) names(line int) []string {
	seen := map[string]bool{}
	syntax.Walk(t.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			seen[n.Name.Name] = true
			s := t.span(n)
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

// function returns what a def of the module says of itself.
func (t *tree) function(name string) (reference.Function, bool) {
	def := t.def(name)
	if def == nil {
		return reference.Function{}, false
	}
	return reference.Defined(def, t.text.content), true
}
