package lsp

import (
	"context"
	"path/filepath"
	"strings"

	"go.starlark.net/syntax"

	"vmop/authoring/reference"
	"vmop/vmtypes"
)

func (s *server) definition(_ context.Context, params *positionParams) ([]location, error) {
	v, err := s.view(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	offset := v.text.offset(params.Position)
	c := cursorAt(v.text.content, offset)
	switch {
	case c.comment:
		return nil, nil
	case c.str >= 0:
		return v.defineString(c)
	}
	path, _, _ := wordAt(v.text.content, offset)
	if o, ok := v.option(path); ok && o.File != "" {
		return v.at(o.File, func(t *text) span {
			line := t.line(o.Line - 1)
			return span{position{o.Line - 1, 0}, position{o.Line - 1, unitsIn(line)}}
		})
	}
	if strings.Contains(path, ".") || v.tree == nil {
		return nil, nil
	}
	if from, ok := v.tree.loads()[path]; ok {
		return v.defineIn(from.module, from.name)
	}
	if v.tree.text == v.text {
		if id := v.tree.binding(params.Position); id != nil {
			return []location{{v.uri, v.tree.span(id)}}, nil
		}
	}
	return v.defineIn(v.document.module, path)
}

// defineString goes to the module, or the name in it, that a load names.
func (v *view) defineString(c cursor) ([]location, error) {
	function, b, ok := c.call()
	if !ok || function != "load" {
		return nil, nil
	}
	content, _ := stringAt(c)
	if b.commas == 0 {
		return v.defineIn(content, "")
	}
	return v.defineIn(firstString(c.content[b.at:]), content)
}

// defineIn returns where a name is defined at the top of a module; without a name,
// the module itself.
func (v *view) defineIn(spec, name string) ([]location, error) {
	if spec == reference.TestingModule {
		return nil, nil // it is no file
	}
	module, err := vmtypes.ResolveLoad(v.document.module, spec)
	if spec == v.document.module {
		module, err = spec, nil
	}
	if err != nil {
		return nil, nil // the diagnostics say so
	}
	return v.at(module, func(t *text) span {
		parsed := parse(module, t)
		if parsed == nil || name == "" {
			return span{}
		}
		if id := parsed.global(name); id != nil {
			return parsed.span(id)
		}
		return span{}
	})
}

// at returns a place in a module, as a file that the editor can open.
func (v *view) at(module string, where func(*text) span) ([]location, error) {
	t, ok := v.module(module)
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
		if path, err = v.server.library.path(module); err != nil {
			return nil, err
		}
	}
	return []location{{uriOf(path), where(t)}}, nil
}

func (s *server) documentSymbol(_ context.Context, params *documentParams) ([]documentSymbol, error) {
	v, err := s.view(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	symbols := []documentSymbol{}
	if v.tree == nil {
		return symbols, nil
	}
	for _, statement := range v.tree.file.Stmts {
		switch n := statement.(type) {
		case *syntax.DefStmt:
			f := reference.Defined(n, v.tree.text.content)
			symbols = append(symbols, documentSymbol{
				Name: f.Name, Detail: strings.TrimPrefix(f.Signature(), f.Name), Kind: symbolFunction,
				Range: v.tree.span(n), SelectionRange: v.tree.span(n.Name),
			})
		case *syntax.AssignStmt:
			if id, ok := n.LHS.(*syntax.Ident); ok {
				symbols = append(symbols,
					documentSymbol{
						Name: id.Name, Kind: symbolConstant, Range: v.tree.span(n),
						SelectionRange: v.tree.span(id),
					})
			}
		case *syntax.LoadStmt:
			symbols = append(symbols,
				documentSymbol{
					Name: n.ModuleName(), Kind: symbolModule, Range: v.tree.span(n),
					SelectionRange: v.tree.span(n.Module),
				})
		}
	}
	return symbols, nil
}
