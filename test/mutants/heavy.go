package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// heavyPackages are test packages that are too slow for mutants.
var heavyPackages = []string{
	"vmop/test/bench", "vmop/test/browser", "vmop/test/cluster", "vmop/test/cluster/clustertest", "vmop/test/guest",
	"vmop/test/program", "vmop/test/systemd",
}

// heavyTests returns a pattern for -skip that matches the tests that use a heavy package, directly or through functions
// and variables of the test files. It also reports whether other tests exist.
func (s *subject) heavyTests() (skip string, others bool, err error) {
	uses := map[string][]string{} // names by function or variable
	for _, name := range slices.Concat(s.TestGoFiles, s.XTestGoFiles) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(s.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return "", false, err
		}
		collectUses(file, uses)
	}
	for changed := true; changed; {
		changed = false
		for name, used := range uses {
			if !slices.Contains(used, heavy) && slices.ContainsFunc(used, func(u string) bool {
				return slices.Contains(uses[u], heavy)
			}) {
				uses[name], changed = append(used, heavy), true
			}
		}
	}
	var all []string
	for name, used := range uses {
		isTest := name != testMain && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz"))
		switch {
		case isTest && slices.Contains(used, heavy):
			all = append(all, name)
		case isTest:
			others = true
		}
	}
	slices.Sort(all)
	return "^(" + strings.Join(all, "|") + ")$", others && !slices.Contains(uses[testMain], heavy), nil
}

const (
	testMain = "TestMain"
	heavy    = "a heavy package" // not a valid name
)

// collectUses adds the names that the functions and variables of a file use. It ignores methods, because a function
// creates their receiver.
func collectUses(file *ast.File, uses map[string][]string) {
	imported := map[string]bool{}
	for _, i := range file.Imports {
		if from, err := strconv.Unquote(i.Path.Value); err == nil && slices.Contains(heavyPackages, from) {
			imported[path.Base(from)] = true
			if i.Name != nil {
				imported[i.Name.Name] = true
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				uses[d.Name.Name] = usedBy(d, imported)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
					for _, name := range v.Names {
						uses[name.Name] = usedBy(v, imported)
					}
				}
			}
		}
	}
}

// usedBy returns the names that a part of a file uses, without methods and fields.
func usedBy(n ast.Node, imported map[string]bool) (used []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && imported[of.Name] {
				used = append(used, heavy)
			}
			used = append(used, usedBy(n.X, imported)...)
			return false
		case *ast.Ident:
			used = append(used, n.Name)
		}
		return true
	})
	return used
}
