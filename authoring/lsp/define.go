package lsp

import (
	"context"
	"path/filepath"
	"strings"

	"go.starlark.net/syntax"

	"vmop/authoring/reference"
	"vmop/vmtypes"
)

func (s *server) findDefinition(_ context.Context, params *positionParams) ([]location, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	offset := v.text.offsetOf(params.Position)
	c := cursorAt(v.text.content, offset)
	switch {
	case c.comment:
		return nil, nil
	case c.str >= 0:
		return v.defineString(c)
	}
	path, _, _ := wordAt(v.text.content, offset)
	if o, ok := v.optionAt(path); ok && o.File != "" {
		return v.locationIn(o.File, func(t *text) span {
			line := t.lineText(o.Line - 1)
			return span{position{o.Line - 1, 0}, position{o.Line - 1, unitsIn(line)}}
		})
	}
	if strings.Contains(path, ".") || v.tree == nil {
		return nil, nil
	}
	if from, ok := v.tree.loadedNames()[path]; ok {
		return v.defineIn(from.module, from.name)
	}
	if v.tree.text == v.text {
		if id := v.tree.bindingOf(params.Position); id != nil {
			return []location{{v.uri, v.tree.spanOf(id)}}, nil
		}
	}
	return v.defineIn(v.document.module, path)
}

// defineString returns the definition of the module, or of the name, in a load statement.
func (v *view) defineString(c cursor) ([]location, error) {
	function, b, ok := c.enclosingCall()
	if !ok || function != "load" {
		return nil, nil
	}
	content, _ := stringAt(c)
	if b.commas == 0 {
		return v.defineIn(content, "")
	}
	return v.defineIn(firstString(c.content[b.at:]), content)
}

// defineIn returns the place where the top level of a module defines a name. Without a name, it returns the module
// itself.
func (v *view) defineIn(spec, name string) ([]location, error) {
	if spec == reference.TestingModule {
		return nil, nil // not a file
	}
	module, err := vmtypes.ResolveLoad(v.document.module, spec)
	if spec == v.document.module {
		module, err = spec, nil
	}
	if err != nil {
		return nil, nil // the diagnostics report this error
	}
	return v.locationIn(module, func(t *text) span {
		parsed := parseTree(module, t)
		if parsed == nil || name == "" {
			return span{}
		}
		if id := parsed.globalName(name); id != nil {
			return parsed.spanOf(id)
		}
		return span{}
	})
}

// locationIn returns a place in a module, in a file that the editor can open.
func (v *view) locationIn(module string, where func(*text) span) ([]location, error) {
	t, ok := v.moduleText(module)
	if !ok {
		return nil, nil
	}
	v.server.mu.Lock()
	d := v.folder.open[module]
	v.server.mu.Unlock()
	if d != nil {
		return []location{{d.uri, where(t)}}, nil
	}
	path := filepath.Join(v.folder.dir, module)
	if strings.HasPrefix(module, vmtypes.StockPrefix) {
		var err error
		if path, err = v.server.library.modulePath(module); err != nil {
			return nil, err
		}
	}
	return []location{{uriOf(path), where(t)}}, nil
}

func (s *server) documentSymbol(_ context.Context, params *documentParams) ([]documentSymbol, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	if v.tree == nil {
		return []documentSymbol{}, nil
	}
	return v.tree.topSymbols(), nil
}

// topSymbols returns the functions, the other globals and the loaded modules of a module.
func (t *tree) topSymbols() []documentSymbol {
	symbols := []documentSymbol{}
	for _, statement := range t.file.Stmts {
		switch n := statement.(type) {
		case *syntax.DefStmt:
			f := reference.Defined(n, t.text.content)
			symbols = append(symbols, documentSymbol{
				Name: f.Name, Detail: strings.TrimPrefix(f.Signature(), f.Name), Kind: symbolFunction,
				Range: t.spanOf(n), SelectionRange: t.spanOf(n.Name),
			})
		case *syntax.AssignStmt:
			if id, ok := n.LHS.(*syntax.Ident); ok {
				symbols = append(symbols,
					documentSymbol{
						Name: id.Name, Kind: symbolConstant, Range: t.spanOf(n),
						SelectionRange: t.spanOf(id),
					})
			}
		case *syntax.LoadStmt:
			symbols = append(symbols,
				documentSymbol{
					Name: n.ModuleName(), Kind: symbolModule, Range: t.spanOf(n),
					SelectionRange: t.spanOf(n.Module),
				})
		}
	}
	return symbols
}
