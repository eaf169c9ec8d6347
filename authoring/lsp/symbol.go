package lsp

import (
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"

	"vmop/vmtypes"
)

// A symbol is what a name in a module stands for.
type symbol struct {
	kind symbolKind
	name string
	// module is the module that defines a global. It can be in the library.
	module string
	// tree and first are the module and the first identifier of a variable of a function, or of a local name of a
	// load statement.
	tree  *tree
	first *syntax.Ident
	// from is the loaded name that a local name of a load statement stands for.
	from *symbol
	// span is the place of the name at the cursor.
	span span
}

type symbolKind int

const (
	globalSymbol symbolKind = iota + 1
	localSymbol             // a variable or a parameter of a function
	aliasSymbol             // another name of a loaded global in one module
	optionSymbol            // vm.options.NAME
	builtinSymbol
)

// folderTrees returns the syntax of the modules in the document's folder, sorted by name, and the modules that can't be
// parsed.
func (v *view) folderTrees() (trees []*tree, broken []string) {
	texts := map[string]*text{}
	if source, err := vmtypes.ReadSource(v.folder.dir); err == nil && v.folder.dir != "" {
		for name, content := range source.Modules {
			texts[name] = newText(content)
		}
	}
	for name, t := range v.open {
		texts[name] = t
	}
	for name, t := range texts {
		switch parsed := parseTree(name, t); {
		case name == v.document.module && v.tree != nil && v.tree.text == t:
			trees = append(trees, v.tree) // symbols refer to its nodes
		case parsed != nil:
			trees = append(trees, parsed)
		case strings.HasSuffix(name, ".star"):
			broken = append(broken, name)
		}
	}
	slices.SortFunc(trees, func(a, b *tree) int { return strings.Compare(a.module, b.module) })
	slices.Sort(broken)
	return trees, broken
}

// symbolAt returns the symbol at a position of the document, or nil.
func (v *view) symbolAt(trees []*tree, at position) *symbol {
	if v.tree == nil || v.tree.text != v.text {
		return nil // it can't be parsed now
	}
	var found *symbol
	set := func(s *symbol, place span) {
		if s != nil && place.Start.Line == at.Line && place.Start.Character <= at.Character &&
			at.Character <= place.End.Character && place.Start.Line == place.End.Line {
			s.span = place
			found = s
		}
	}
	for _, o := range v.tree.optionNames() {
		set(&symbol{kind: optionSymbol, name: o.name}, o.span)
	}
	syntax.Walk(v.tree.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.LoadStmt:
			for i, from := range n.From {
				set(v.tree.loadedSymbol(n, i), v.tree.spanOf(from))
			}
		case *syntax.Ident:
			set(v.tree.symbolOf(n), v.tree.spanOf(n))
		case *syntax.CallExpr:
			for _, name := range keywordsOf(n) {
				if place := v.tree.spanOf(name); place.Start.Line == at.Line {
					set(parameterSymbol(trees, v.tree, n, name.Name), place)
				}
			}
		}
		return true
	})
	return found
}

// loadedSymbol returns the global that a load statement loads as name i, or nil.
func (t *tree) loadedSymbol(load *syntax.LoadStmt, i int) *symbol {
	module, err := vmtypes.ResolveLoad(t.module, load.ModuleName())
	if err != nil {
		return nil
	}
	return &symbol{kind: globalSymbol, name: load.From[i].Name, module: module}
}

// symbolOf returns the symbol of an identifier, or nil.
func (t *tree) symbolOf(id *syntax.Ident) *symbol {
	b, ok := id.Binding.(*resolve.Binding)
	if !ok {
		return nil
	}
	switch {
	case b.Scope == resolve.Predeclared || b.Scope == resolve.Universal:
		return &symbol{kind: builtinSymbol, name: id.Name}
	case b.Scope == resolve.Undefined || b.First == nil:
		return nil
	case b.Scope == resolve.Global:
		return &symbol{kind: globalSymbol, name: id.Name, module: t.module}
	}
	for _, stmt := range t.file.Stmts {
		load, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		i := slices.Index(load.To, b.First)
		switch {
		case i < 0:
		case load.From[i].Name == id.Name:
			return t.loadedSymbol(load, i)
		default:
			return &symbol{
				kind: aliasSymbol, name: id.Name, tree: t, first: b.First, from: t.loadedSymbol(load, i),
			}
		}
	}
	return &symbol{kind: localSymbol, name: id.Name, tree: t, first: b.First}
}

// keywordsOf returns the names of the keyword arguments of a call.
func keywordsOf(call *syntax.CallExpr) []*syntax.Ident {
	var names []*syntax.Ident
	for _, argument := range call.Args {
		if b, ok := argument.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
			if id, ok := b.X.(*syntax.Ident); ok {
				names = append(names, id)
			}
		}
	}
	return names
}

// parameterSymbol returns the parameter with a name of the function that a call calls, or nil.
func parameterSymbol(trees []*tree, t *tree, call *syntax.CallExpr, name string) *symbol {
	id, ok := call.Fn.(*syntax.Ident)
	if !ok {
		return nil
	}
	s := t.symbolOf(id)
	if s != nil && s.kind == aliasSymbol {
		s = s.from
	}
	switch {
	case s == nil:
		return nil
	case s.kind == localSymbol:
		return parameterOf(t, s.first, name)
	case s.kind != globalSymbol:
		return nil
	}
	for _, other := range trees {
		if other.module == s.module {
			if def := other.topFunction(s.name); def != nil {
				return parameterOf(other, def.Name, name)
			}
		}
	}
	return nil
}

// parameterOf returns the parameter of the function that an identifier defines, or nil.
func parameterOf(t *tree, function *syntax.Ident, name string) *symbol {
	var found *symbol
	syntax.Walk(t.file, func(n syntax.Node) bool {
		if def, ok := n.(*syntax.DefStmt); ok && def.Name == function {
			for _, p := range def.Params {
				if id := parameterIdent(p); id != nil && id.Name == name {
					found = &symbol{kind: localSymbol, name: name, tree: t, first: id}
				}
			}
		}
		return true
	})
	return found
}

// parameterIdent returns the name of a parameter that can be given by name, or nil.
func parameterIdent(p syntax.Expr) *syntax.Ident {
	if b, ok := p.(*syntax.BinaryExpr); ok {
		p = b.X
	}
	id, _ := p.(*syntax.Ident)
	return id
}

// functionWith returns the function that has an identifier as a parameter, or nil.
func (t *tree) functionWith(parameter *syntax.Ident) *syntax.DefStmt {
	var found *syntax.DefStmt
	syntax.Walk(t.file, func(n syntax.Node) bool {
		if def, ok := n.(*syntax.DefStmt); ok {
			for _, p := range def.Params {
				if parameterIdent(p) == parameter {
					found = def
				}
			}
		}
		return true
	})
	return found
}

// An optionName is the name of an option of a type in a module.
type optionName struct {
	name string
	span span
	// entry is the declaration; nil for a use.
	entry *syntax.DictEntry
}

// optionNames returns the names of options in a module: in declarations, in vm.options.NAME, and in the calls of tests.
func (t *tree) optionNames() []optionName {
	var names []optionName
	for _, stmt := range t.file.Stmts {
		if assign, ok := stmt.(*syntax.AssignStmt); ok {
			if id, ok := assign.LHS.(*syntax.Ident); ok && id.Name == "options" {
				names = append(names, t.keyNames(assign.RHS, true)...)
			}
		}
	}
	syntax.Walk(t.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DotExpr:
			if of, ok := n.X.(*syntax.DotExpr); ok && of.Name.Name == "options" {
				names = append(names, optionName{n.Name.Name, t.spanOf(n.Name), nil})
			}
		case *syntax.CallExpr:
			for _, argument := range n.Args {
				b, ok := argument.(*syntax.BinaryExpr)
				if ok && b.Op == syntax.EQ && strings.HasSuffix(t.module, "_test.star") {
					if id, ok := b.X.(*syntax.Ident); ok && id.Name == "options" {
						names = append(names, t.keyNames(b.Y, false)...)
					}
				}
			}
		}
		return true
	})
	return names
}

// keyNames returns the literal keys of a dict, or of several dicts joined with |.
func (t *tree) keyNames(e syntax.Expr, declared bool) (names []optionName) {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return t.keyNames(e.X, declared)
	case *syntax.BinaryExpr:
		return append(t.keyNames(e.X, declared), t.keyNames(e.Y, declared)...)
	case *syntax.DictExpr:
		for _, item := range e.List {
			entry := item.(*syntax.DictEntry)
			key, ok := entry.Key.(*syntax.Literal)
			if !ok || key.Token != syntax.STRING || key.Raw[0] != '"' || strings.HasPrefix(key.Raw, `"""`) {
				continue
			}
			place := t.spanOf(key)
			place.Start.Character++
			place.End.Character--
			name := optionName{key.Value.(string), place, nil}
			if declared {
				name.entry = entry
			}
			names = append(names, name)
		}
	}
	return names
}
