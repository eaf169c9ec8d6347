package lsp

import (
	"context"
	"slices"
	"strings"

	"go.starlark.net/syntax"
)

// foldingRange returns the lines that an editor can hide: functions, calls, dicts and lists on several lines,
// docstrings, and the load statements together.
func (s *server) foldingRange(_ context.Context, params *documentParams) ([]foldingRange, error) {
	v, err := s.viewOf(params.TextDocument.URI)
	if err != nil {
		return nil, err
	}
	ranges := []foldingRange{}
	if v.tree == nil {
		return ranges, nil
	}
	add := func(start, end int, kind string) {
		same := slices.ContainsFunc(ranges, func(r foldingRange) bool { return r.StartLine == start })
		if start < end && end < len(v.text.starts) && !same {
			ranges = append(ranges, foldingRange{start, end, kind})
		}
	}
	first, last := -1, -1
	for _, stmt := range v.tree.file.Stmts {
		if load, ok := stmt.(*syntax.LoadStmt); ok {
			if first < 0 {
				first = int(load.Load.Line) - 1
			}
			last = int(load.Rparen.Line) - 1
		}
	}
	add(first, last, "imports")
	syntax.Walk(v.tree.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt, *syntax.ForStmt, *syntax.IfStmt:
			place := v.tree.spanOf(n)
			add(place.Start.Line, place.End.Line, "")
		case *syntax.CallExpr:
			add(int(n.Lparen.Line)-1, int(n.Rparen.Line)-2, "")
		case *syntax.DictExpr:
			add(int(n.Lbrace.Line)-1, int(n.Rbrace.Line)-2, "")
		case *syntax.ListExpr:
			add(int(n.Lbrack.Line)-1, int(n.Rbrack.Line)-2, "")
		case *syntax.ExprStmt:
			if literal, ok := n.X.(*syntax.Literal); ok {
				place := v.tree.spanOf(literal)
				add(place.Start.Line, place.End.Line, "comment")
			}
		}
		return true
	})
	slices.SortFunc(ranges, func(a, b foldingRange) int { return a.StartLine - b.StartLine })
	return ranges, nil
}

// workspaceSymbol returns the functions and other globals with a word in their names, in all folders with open
// documents.
func (s *server) workspaceSymbol(_ context.Context, params *symbolParams) ([]symbolInformation, error) {
	s.mu.Lock()
	var views []*view
	for _, f := range s.folders {
		views = append(views, &view{server: s, folder: f, open: ownTexts(f.open)})
	}
	s.mu.Unlock()
	symbols := []symbolInformation{}
	for _, v := range views {
		trees, _ := v.folderTrees()
		for _, t := range trees {
			uri := v.uriOfModule(t.module)
			for _, symbol := range t.topSymbols() {
				matches := strings.Contains(strings.ToLower(symbol.Name), strings.ToLower(params.Query))
				if symbol.Kind != symbolModule && matches {
					symbols = append(symbols, symbolInformation{
						Name: symbol.Name, Kind: symbol.Kind, Location: location{uri, symbol.SelectionRange},
						ContainerName: t.module,
					})
				}
			}
		}
	}
	slices.SortFunc(symbols, func(a, b symbolInformation) int {
		return strings.Compare(a.Location.URI+"\x00"+a.Name, b.Location.URI+"\x00"+b.Name)
	})
	return symbols, nil
}
