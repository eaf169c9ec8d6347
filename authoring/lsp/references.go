package lsp

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// An occurrence is a place with the name of a symbol.
type occurrence struct {
	tree *tree
	span span
	// ident is the identifier; nil in a string.
	ident *syntax.Ident
	// defines means that the place defines the symbol. alias means that it has another name there.
	defines, alias bool
}

// occurrencesOf returns all places with the name of a symbol in the folder, in the order of modules and lines.
func occurrencesOf(s *symbol, trees []*tree) []occurrence {
	var list []occurrence
	switch s.kind {
	case optionSymbol:
		for _, t := range trees {
			for _, o := range t.optionNames() {
				if o.name == s.name {
					list = append(list, occurrence{tree: t, span: o.span, defines: o.entry != nil})
				}
			}
		}
	case globalSymbol:
		for _, t := range trees {
			list = append(list, t.globalOccurrences(s)...)
		}
	case aliasSymbol:
		list = s.tree.variableOccurrences(s.first)
	case localSymbol:
		list = append(s.tree.variableOccurrences(s.first), keywordOccurrences(s, trees)...)
	}
	slices.SortStableFunc(list, func(a, b occurrence) int {
		switch {
		case a.tree.module != b.tree.module:
			return strings.Compare(a.tree.module, b.tree.module)
		case a.span.Start.Line != b.span.Start.Line:
			return a.span.Start.Line - b.span.Start.Line
		}
		return a.span.Start.Character - b.span.Start.Character
	})
	return list
}

// variableOccurrences returns the places of a variable in a module, by its first identifier.
func (t *tree) variableOccurrences(first *syntax.Ident) []occurrence {
	var list []occurrence
	syntax.Walk(t.file, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok {
			if b, ok := id.Binding.(*resolve.Binding); ok && b.First == first {
				list = append(list, occurrence{tree: t, span: t.spanOf(id), ident: id, defines: id == first})
			}
		}
		return true
	})
	return list
}

// globalOccurrences returns the places of a global in a module that defines or loads it.
func (t *tree) globalOccurrences(s *symbol) []occurrence {
	var list []occurrence
	if t.module == s.module {
		syntax.Walk(t.file, func(n syntax.Node) bool {
			if id, ok := n.(*syntax.Ident); ok && id.Name == s.name {
				if b, ok := id.Binding.(*resolve.Binding); ok && b.Scope == resolve.Global {
					list = append(list, occurrence{tree: t, span: t.spanOf(id), ident: id, defines: b.First == id})
				}
			}
			return true
		})
	}
	for _, stmt := range t.file.Stmts {
		load, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		for i, from := range load.From {
			loaded := t.loadedSymbol(load, i)
			if loaded == nil || loaded.module != s.module || loaded.name != s.name {
				continue
			}
			alias := load.To[i].Name != s.name
			list = append(list, occurrence{tree: t, span: t.spanOf(from)})
			for _, o := range t.variableOccurrences(load.To[i]) {
				if o.span != t.spanOf(from) {
					o.defines, o.alias = false, alias
					list = append(list, o)
				}
			}
		}
	}
	return list
}

// keywordOccurrences returns the places where calls name a parameter.
func keywordOccurrences(s *symbol, trees []*tree) []occurrence {
	def := s.tree.functionWith(s.first)
	if def == nil {
		return nil
	}
	function := s.tree.symbolOf(def.Name)
	if function == nil {
		return nil
	}
	var list []occurrence
	for _, o := range occurrencesOf(function, trees) {
		call := o.tree.callOf(o.ident)
		if call == nil {
			continue
		}
		for _, id := range keywordsOf(call) {
			if id.Name == s.name {
				list = append(list, occurrence{tree: o.tree, span: o.tree.spanOf(id), ident: id})
			}
		}
	}
	return list
}

// callOf returns the call of the function that an identifier names, or nil.
func (t *tree) callOf(function *syntax.Ident) *syntax.CallExpr {
	var found *syntax.CallExpr
	syntax.Walk(t.file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && function != nil && call.Fn == syntax.Expr(function) {
			found = call
		}
		return true
	})
	return found
}

// uriOfModule returns the URI of a module of the folder, as the editor spells it.
func (v *view) uriOfModule(module string) string {
	v.server.mu.Lock()
	defer v.server.mu.Unlock()
	if d := v.folder.open[module]; d != nil {
		return d.uri
	}
	return uriOf(filepath.Join(v.folder.dir, module))
}

func (s *server) findReferences(_ context.Context, params *referenceParams) ([]location, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	list := []location{}
	trees, _ := v.folderTrees()
	found := v.symbolAt(trees, params.Position)
	if found == nil || found.kind == builtinSymbol {
		return list, nil
	}
	for _, o := range occurrencesOf(found, trees) {
		if params.Context.IncludeDeclaration || !o.defines {
			list = append(list, location{v.uriOfModule(o.tree.module), o.span})
		}
	}
	return list, nil
}

func (s *server) documentHighlight(_ context.Context, params *positionParams) ([]highlight, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil || v.tree == nil {
		return nil, err
	}
	list := []highlight{}
	trees, _ := v.folderTrees() // keyword arguments name parameters of other modules
	if found := v.symbolAt(trees, params.Position); found != nil && found.kind != builtinSymbol {
		for _, o := range occurrencesOf(found, trees) {
			if o.tree == v.tree {
				list = append(list, highlight{o.span})
			}
		}
	}
	return list, nil
}
