package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// equivalentList contains the mutants that need no test: "FILE FUNCTION: CHANGE # REASON".
//
//go:embed equivalent.txt
var equivalentList string

// readEquivalent returns the keys of a list of mutants.
func readEquivalent(list string) (map[string]bool, error) {
	known := map[string]bool{}
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, reason, found := strings.Cut(line, " # ")
		if !found || reason == "" {
			return nil, fmt.Errorf("equivalent.txt: %q has no reason", line)
		}
		known[key] = true
	}
	return known, nil
}

// mutant is a file with one error.
type mutant struct {
	file, function string
	line, column   int
	from, to       int // range of the replaced bytes
	old, text      string

	of   *subject
	path string
}

// mutantKey identifies a mutant independently of its position in the function.
func (m mutant) mutantKey() string {
	return fmt.Sprintf("%s %s: %s -> %s", m.file, m.function, m.old, m.text)
}

// String returns the position of the mutant and its change.
func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d %s: %s -> %s", m.file, m.line, m.column, m.function, m.old,
		strings.Join(strings.Fields(m.text), " "))
}

// mutate returns the source with the mutant.
func (m mutant) mutate(source []byte) []byte {
	return append(append(append([]byte{}, source[:m.from]...), m.text...), source[m.to:]...)
}

// swapped maps operators to their replacements.
var swapped = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ,
	token.GEQ: token.GTR, token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

// mutantsOf returns all mutants of a file.
func mutantsOf(file string, source []byte) ([]mutant, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, 0)
	if err != nil {
		return nil, err
	}
	c := collector{set: set, file: file, source: source}
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && f.Name.Name != "String" {
			c.function = f.Name.Name
			ast.Inspect(f.Body, c.visitNode)
		}
	}
	return c.found, nil
}

// collector collects the mutants of a file.
type collector struct {
	set      *token.FileSet
	file     string
	source   []byte
	function string
	found    []mutant
}

func (c *collector) visitNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if other, ok := swapped[n.Op]; ok {
			c.addMutant(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
		}
	case *ast.IfStmt:
		c.addMutant(n.Cond.Pos(), n.Cond.End(), "!("+c.sourceText(n.Cond.Pos(), n.Cond.End())+")")
	case *ast.ExprStmt:
		if _, ok := n.X.(*ast.CallExpr); ok && !isLog(n.X) {
			c.addMutant(n.Pos(), n.End(), "")
		}
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE && !isBlank(n.Lhs) {
			c.addMutant(n.Pos(), n.End(), "")
		}
	case *ast.IncDecStmt:
		c.addMutant(n.Pos(), n.End(), "")
	case *ast.ReturnStmt:
		if len(n.Results) > 0 {
			if last, ok := n.Results[len(n.Results)-1].(*ast.Ident); ok && last.Name == "err" {
				c.addMutant(last.Pos(), last.End(), "nil")
			}
		}
	}
	return true
}

// isLog reports whether a call writes a log message, which tests need not check.
func isLog(call ast.Expr) bool {
	f, ok := call.(*ast.CallExpr).Fun.(*ast.SelectorExpr)
	return ok && strings.Contains(" Debug Info Warn Error Log log ", " "+f.Sel.Name+" ")
}

// isBlank reports whether all assigned values are discarded.
func isBlank(left []ast.Expr) bool {
	for _, e := range left {
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

func (c *collector) sourceText(from, to token.Pos) string {
	return string(c.source[c.set.Position(from).Offset:c.set.Position(to).Offset])
}

func (c *collector) addMutant(from, to token.Pos, text string) {
	at := c.set.Position(from)
	c.found = append(c.found, mutant{
		file: c.file, function: c.function, line: at.Line, column: at.Column,
		from: at.Offset, to: c.set.Position(to).Offset,
		old: strings.Join(strings.Fields(c.sourceText(from, to)), " "), text: text,
	})
}
