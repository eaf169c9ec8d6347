package vmop

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/bazelbuild/buildtools/build"
)

// The bounds limit the longest functions and files: the median is short in every project, and the longest functions are
// the ugliest.
const (
	longestFunction = 60
	longestFile     = 500
)

// longFunctions lists the functions that may be longer, each with its reason.
var longFunctions = map[string]string{}

var styleRules = []rule{
	{"package comments", "a reader who opens a package wants to know what it is for", uncommentedPackages},
	{"package names", "a package is named after what it is", vagueNames},
	{"identifier comments", "a public identifier is a contract", uncommentedIdentifiers},
	{"function length", "a function is read in one look", longFunctionsIn},
	{"file length", "a file is about one thing", longFiles},
	{"error texts", "an error says what was being done to what; that it failed is known", failedTo},
	{"no init", "what happens before main can't be tested, ordered or left out", initFunctions},
	{"no package state", "two of a thing must be able to live in one process", packageState},
	{"no package work", "every start of a program would pay for it", packageWork},
	{"contexts", "work that can't be cancelled hangs", ownContexts},
	{"no skips", "a skipped test proves nothing, and looks like a passed one", skippedTests},
	{"machine paths", "the tree is the same on every machine", machinePaths},
	{"links", "a document that leads nowhere is worse than none", deadLinks},
	{"decisions", "a reader asks why where the code is", unlinkedDecisions},
	{"formatted Starlark", "make format ends the discussion", unformattedStarlark},
	{"changelog", "a change that users notice is written down before it is released", changelog},
	{"pinned sources", "what a build takes from the network is the same until a commit changes it, or is signed", unpinned},
}

func TestStyle(t *testing.T) {
	t.Parallel()
	enforce(t, styleRules)
}

func uncommentedPackages(tr tree) []string {
	documented := map[string]bool{}
	for _, s := range tr.code() {
		documented[s.folder()] = documented[s.folder()] || s.syntax.Doc != nil
	}
	var broken []string
	for folder, ok := range documented {
		if !ok {
			broken = append(broken, "package "+folder+" has no comment")
		}
	}
	return broken
}

func vagueNames(tr tree) []string {
	var broken []string
	for _, s := range tr.sources {
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc"}, path.Base(s.folder())) {
			broken = append(broken, s.path+" is in a package that could hold anything")
		}
	}
	return broken
}

// uncommentedIdentifiers ignores programs, which are not imported, and methods that implement an interface, either
// a well-known interface or one of the package.
func uncommentedIdentifiers(tr tree) []string {
	contracts := map[string]bool{}
	tr.find(func(s source, n ast.Node) string {
		if i, ok := n.(*ast.InterfaceType); ok {
			for _, method := range i.Methods.List {
				if len(method.Names) == 1 && (method.Doc != nil || method.Comment != nil) {
					contracts[s.folder()+"."+method.Names[0].Name] = true
				}
			}
		}
		return ""
	})
	var broken []string
	for _, s := range tr.code() {
		if s.program() {
			continue
		}
		for _, declaration := range s.syntax.Decls {
			for _, name := range uncommented(declaration) {
				if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv != nil && contracts[s.folder()+"."+name] {
					continue
				}
				broken = append(broken, fmt.Sprintf("%s: %s has no comment", tr.at(declaration), name))
			}
		}
	}
	return broken
}

func uncommented(declaration ast.Decl) []string {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && publicReceiver(d) && !wellKnown(d) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if d.Doc == nil && s.Doc == nil && s.Name.IsExported() {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				if d.Doc == nil && s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() {
					names = append(names, s.Names[0].Name)
				}
			}
		}
		return names
	}
	return nil
}

func publicReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	name, ok := receiver.(*ast.Ident)
	return ok && name.IsExported()
}

// wellKnown reports whether a function is a method of error, fmt.Stringer, sort.Interface, io, YAML, JSON or Starlark's
// values.
func wellKnown(f *ast.FuncDecl) bool {
	return f.Recv != nil && slices.Contains([]string{
		"Error", "Unwrap", "Is", "As", "String", "GoString", "LogValue", "Len", "Less", "Swap", "Read", "Write",
		"Close",
		"MarshalJSON", "UnmarshalJSON", "MarshalYAML", "UnmarshalYAML", "MarshalText", "UnmarshalText",
		"Type", "Freeze", "Truth", "Hash", "Attr", "AttrNames", "Binary", "CompareSameType", "Name", "CallInternal",
	}, f.Name.Name)
}

func longFunctionsIn(tr tree) []string {
	var broken []string
	for _, s := range tr.written() {
		for _, declaration := range s.syntax.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if !ok || longFunctions[s.folder()+"."+f.Name.Name] != "" {
				continue
			}
			if lines := tr.fset.Position(f.End()).Line - tr.fset.Position(f.Pos()).Line + 1; lines > longestFunction {
				broken = append(broken, fmt.Sprintf("%s: %s has %d lines, more than %d", tr.at(f), f.Name.Name, lines,
					longestFunction))
			}
		}
	}
	return broken
}

func longFiles(tr tree) []string {
	var broken []string
	for _, s := range tr.written() {
		if s.lines() > longestFile {
			broken = append(broken, fmt.Sprintf("%s has %d lines, more than %d", s.path, s.lines(), longestFile))
		}
	}
	return broken
}

func failedTo(tr tree) []string {
	return tr.find(func(s source, n ast.Node) string {
		text, ok := n.(*ast.BasicLit)
		if !ok || s.test() || text.Kind != token.STRING || !strings.Contains(strings.ToLower(text.Value), "failed to") {
			return ""
		}
		return "say what was being done, not that it failed: " + text.Value
	})
}

func initFunctions(tr tree) []string {
	return tr.find(func(_ source, n ast.Node) string {
		if f, ok := n.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			return "func init"
		}
		return ""
	})
}

// packageState finds mutable package-level variables: locks, channels, pools and empty maps. Tables, embedded files and
// error values are allowed.
// packageState allows stockInUse, which contains decoded forms of embedded files: every user would decode the same.
func packageState(tr tree) []string {
	return tr.values(func(v *ast.ValueSpec) string {
		if v.Names[0].Name == "stockInUse" {
			return ""
		}
		for _, e := range append([]ast.Expr{v.Type}, v.Values...) {
			switch {
			case e == nil:
			case isChannel(e), strings.HasPrefix(words(e), "sync."), strings.HasPrefix(words(e), "atomic."):
				return "variable " + v.Names[0].Name + " is state of the package"
			case isMake(e):
				return "variable " + v.Names[0].Name + " is made to be filled"
			}
		}
		return ""
	})
}

func isChannel(e ast.Expr) bool {
	_, ok := e.(*ast.ChanType)
	return ok
}

func isMake(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && words(call) == "make"
}

// packageWork finds values that are computed before main although they could be computed later.
func packageWork(tr tree) []string {
	return tr.values(func(v *ast.ValueSpec) string {
		for _, e := range v.Values {
			if name := words(e); strings.HasPrefix(name, "regexp.") || strings.HasPrefix(name, "template.") {
				return "variable " + v.Names[0].Name + " is compiled at every start"
			}
		}
		return ""
	})
}

// words returns pkg.Name for a type, a call or a literal of that name.
func words(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return words(x.X) + "." + x.Sel.Name
	case *ast.CallExpr:
		return words(x.Fun)
	case *ast.CompositeLit:
		return words(x.Type)
	case *ast.StarExpr:
		return words(x.X)
	case *ast.UnaryExpr:
		return words(x.X)
	}
	return ""
}

func ownContexts(tr tree) []string {
	return tr.find(func(s source, n ast.Node) string {
		call, ok := n.(*ast.CallExpr)
		if !ok || s.test() {
			return ""
		}
		switch name := words(call); {
		case name == "context.TODO":
			return "context.TODO"
		case name == "context.Background" && !s.program():
			return "context.Background below main: let the caller hand one on"
		}
		return ""
	})
}

func skippedTests(tr tree) []string {
	return tr.find(func(s source, n ast.Node) string {
		call, ok := n.(*ast.CallExpr)
		if !ok || s.folder() == "test/tier" {
			return ""
		}
		switch words(call) {
		case "t.Skip", "t.Skipf", "t.SkipNow", "b.Skip", "b.Skipf", "b.SkipNow", "tb.Skip", "tb.Skipf", "tb.SkipNow":
			return "a skipped test: fail, and name the package to install"
		}
		return ""
	})
}

func machinePaths(tr tree) []string {
	paths := regexp.MustCompile(`(?:^|[^\w.])(/(?:root/(?:go|\.cache)|work/(?:main|shared))\b\S*)`)
	var broken []string
	for _, name := range tr.names {
		text := tr.read(name)
		if !utf8.ValidString(text) || name == "style_test.go" {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if match := paths.FindStringSubmatch(line); match != nil {
				broken = append(broken, fmt.Sprintf("%s:%d: %s is there on one machine only", name, i+1, match[1]))
			}
		}
	}
	return broken
}

// deadLinks checks links of Markdown documents to files of the tree.
func deadLinks(tr tree) []string {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	var broken []string
	for _, name := range tr.names {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, match := range link.FindAllStringSubmatch(tr.read(name), -1) {
			if _, err := fs.Stat(tr.files, path.Join(path.Dir(name), match[1])); err != nil {
				broken = append(broken, name+" links to "+match[1]+", which does not exist")
			}
		}
	}
	return broken
}

// unlinkedDecisions finds decisions that no code refers to.
func unlinkedDecisions(tr tree) []string {
	named := map[string]bool{}
	link := regexp.MustCompile(`docs/decisions/(\d{4})-`)
	for _, name := range tr.names {
		if !slices.Contains([]string{".go", ".star", ".yaml", ".c"}, path.Ext(name)) {
			continue
		}
		for _, match := range link.FindAllStringSubmatch(tr.read(name), -1) {
			named[match[1]] = true
		}
	}
	var broken []string
	for _, name := range tr.names {
		number, _, isDecision := strings.Cut(path.Base(name), "-")
		if path.Dir(name) == "docs/decisions" && isDecision && !named[number] {
			broken = append(broken, name+" is named by no comment of the code that it explains")
		}
	}
	return broken
}

func unformattedStarlark(tr tree) []string {
	var broken []string
	for _, name := range tr.names {
		text := tr.read(name)
		if path.Ext(name) != ".star" || strings.Contains(name, "testdata/") || strings.Contains(text, "\x00") {
			continue // not a source file, wrong on purpose, or compiled
		}
		file, err := build.ParseDefault(name, []byte(text))
		switch {
		case err != nil:
			broken = append(broken, err.Error())
		case string(build.Format(file)) != text:
			broken = append(broken, name+" is not formatted: make format")
		}
	}
	return broken
}

func changelog(tr tree) []string {
	_, rest, _ := strings.Cut(tr.read("CHANGELOG.md"), "\n## ")
	if title, _, _ := strings.Cut(rest, "\n"); title != "Unreleased" {
		return []string{"the first section of CHANGELOG.md is not Unreleased"}
	}
	return nil
}

// find calls look for every node of every file. look returns a complaint or "".
func (tr tree) find(look func(source, ast.Node) string) []string {
	var broken []string
	for _, s := range tr.sources {
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if n == nil {
				return false
			}
			if complaint := look(s, n); complaint != "" {
				broken = append(broken, tr.at(n)+": "+complaint)
			}
			return true
		})
	}
	return broken
}

// values calls look for every package-level variable of the code.
func (tr tree) values(look func(*ast.ValueSpec) string) []string {
	var broken []string
	for _, s := range tr.code() {
		for _, declaration := range s.syntax.Decls {
			d, ok := declaration.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				if complaint := look(spec.(*ast.ValueSpec)); complaint != "" {
					broken = append(broken, tr.at(spec)+": "+complaint)
				}
			}
		}
	}
	return broken
}

// unpinned returns base images without a digest, and sources of Debian packages without signature checks.
func unpinned(tr tree) []string {
	pinned := regexp.MustCompile(`^(scratch|\S+@sha256:[0-9a-f]{64})$`)
	var broken []string
	for _, name := range tr.names {
		for line := range strings.Lines(tr.read(name)) {
			words := strings.Fields(line)
			isBase := strings.HasSuffix(name, "Containerfile") && len(words) > 1 && words[0] == "FROM"
			if isBase && !pinned.MatchString(words[1]) {
				broken = append(broken, name+": "+words[1]+" has no valid digest: run make base-image")
			}
		}
		if path.Ext(name) != ".sources" {
			continue
		}
		for stanza := range strings.SplitSeq(strings.TrimSpace(tr.read(name)), "\n\n") {
			if !strings.Contains(stanza, "\nSigned-By: /") || strings.Contains(strings.ToLower(stanza), "\ntrusted:") {
				broken = append(broken, name+": a source needs Signed-By with the archive's keyring, and no Trusted")
			}
		}
	}
	return broken
}

func TestStyleRulesBite(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule, file, text, want string
	}{
		{"package comments", "a/x.go", "package a", "package a has no comment"},
		{"package names", "a/util/x.go", "package util", "a/util/x.go is in a package"},
		{"identifier comments", "a/x.go", "package a\nfunc F() {}", "a/x.go:2: F has no comment"},
		{"identifier comments", "a/x.go", "package a\ntype T int", "T has no comment"},
		{
			"identifier comments", "a/x.go", "package a\n// T is.\ntype T int\nfunc (t *T) M() {}",
			"x.go:4: M has no comment",
		},
		{"identifier comments", "a/x.go", "package a\nconst C = 1", "C has no comment"},
		{"function length", "a/x.go", "package a\nfunc f() {" + strings.Repeat("\n", 60) + "}", "f has 61 lines"},
		{"file length", "a/x.go", "package a" + strings.Repeat("\n", 501), "a/x.go has 501 lines"},
		{"error texts", "a/x.go", "package a\nconst c = `Failed to x`", "x.go:2: say what was being done"},
		{"no init", "a/x.go", "package a\nfunc init() {}", "x.go:2: func init"},
		{"no package state", "a/x.go", "package a\nvar v sync.Mutex", "v is state of the package"},
		{"no package state", "a/x.go", "package a\nvar v = &sync.Pool{}", "v is state of the package"},
		{"no package state", "a/x.go", "package a\nvar v = make(map[int]int)", "v is made to be filled"},
		{"no package work", "a/x.go", "package a\nvar v = regexp.MustCompile(`x`)", "v is compiled at every start"},
		{"contexts", "a/x.go", "package a\nfunc f() { g(context.Background()) }", "context.Background below main"},
		{"no skips", "a/x_test.go", "package a\nfunc f() { t.Skip() }", "x_test.go:2: a skipped test"},
		{"machine paths", "x.md", "see /root/go/x", "x.md:1: /root/go/x is there on one machine only"},
		{"links", "docs/x.md", "see [it](../y.md#z) and [that](https://example.org)", "docs/x.md links to ../y.md,"},
		{"decisions", "docs/decisions/0001-x.md", "# 0001. X", "0001-x.md is named by no comment"},
		{"formatted Starlark", "x.star", "x=1\n", "x.star is not formatted"},
		{"changelog", "CHANGELOG.md", "# Changes\n\n## 1.0\n\n## Unreleased\n", "not Unreleased"},
		{"pinned sources", "a/x.Containerfile", "FROM debian:12 AS a\n", "debian:12 has no valid digest"},
		{"pinned sources", "Containerfile", "FROM debian@sha256:12ab\n", "debian@sha256:12ab has no valid digest"},
		{"pinned sources", "a.sources", "Types: deb\nSigned-By: /a\nTrusted: yes\n", "and no Trusted"},
		{"pinned sources", "a.sources", "Types: deb\nSigned-By: /a\n\nTypes: deb\n", "a source needs Signed-By"},
	}
	for _, tt := range tests {
		t.Run(tt.rule+"/"+tt.want, func(t *testing.T) {
			t.Parallel()
			bite(t, styleRules, tt.rule, tt.want, fstest.MapFS{tt.file: {Data: []byte(tt.text)}})
		})
	}
}
