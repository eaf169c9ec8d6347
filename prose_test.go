package vmop

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const (
	widestLine = 120 // columns
	tabWidth   = 4
	// mostPackages is the number of packages that may have an unexported function of the same name.
	mostPackages = 6
)

var proseRules = []rule{
	{"line width", "a long line hides what a short function promises to show", wideLines},
	{"prose", "the tree is read by people who know the field, not our own words", privateWords},
	{"names", "a reader searches for a function by its verb and object", sharedNames},
	{"exports", "an exported name promises that other packages need it", unusedExports},
}

func TestProse(t *testing.T) {
	t.Parallel()
	enforce(t, proseRules)
}

// wideLines reports lines that are too wide in an editor. It ignores lines that can't be broken: directives, markers of
// controller-gen and single words such as addresses. It also ignores long strings, which must stay searchable, if the
// rest of their line is short.
func wideLines(tr tree) []string {
	var broken []string
	for _, s := range tr.sources {
		if ast.IsGenerated(s.syntax) {
			continue
		}
		texts := tr.longStrings(s)
		for i, line := range strings.Split(s.text, "\n") {
			columns := utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
			if columns > widestLine && columns-texts[i+1] > widestLine/2 && !unbreakable(line) {
				broken = append(broken, fmt.Sprintf("%s:%d has %d columns, more than %d", s.path, i+1, columns,
					widestLine))
			}
		}
	}
	return broken
}

func unbreakable(line string) bool {
	text := strings.TrimSpace(line)
	return strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "// +kubebuilder:") ||
		!strings.Contains(strings.TrimPrefix(text, "// "), " ")
}

// longStrings returns, for each line, the number of columns in strings that are at least 40 columns long or span
// several lines.
func (tr tree) longStrings(s source) map[int]int {
	columns := map[int]int{}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		text, ok := n.(*ast.BasicLit)
		if !ok || text.Kind != token.STRING {
			return true
		}
		first := tr.fset.Position(text.Pos()).Line
		parts := strings.Split(text.Value, "\n")
		for i, part := range parts {
			if n := utf8.RuneCountInString(part) + (tabWidth-1)*strings.Count(part, "\t"); n >= 40 || len(parts) > 1 {
				columns[first+i] += n
			}
		}
		return true
	})
	return columns
}

// privateWord is a phrase that engineers in the field would not write, and its replacement.
type privateWord struct {
	pattern, instead string
	allowed          []string // files in which the phrase is natural
}

var privateWordList = []privateWord{
	{`\b(?:tells|says) +whether\b`, "reports whether", nil},
	{`\b(?:[Nn]obody|[Ss]omebody)\b`, "name who: no manager, another process, a user", []string{
		"cmd/vmrunner/faults_test.go", "cmd/vmrunner/service_test.go", // the user account of that name
	}},
	{`\b(?:stands?|stood|standing) +still\b`, "is paused", nil},
	{`\bthe +word +to\b`, "the stop request", nil},
	{`\b(?:is|are|be|was|were|been|being) +told\b`, "say who reports what, and where", nil},
	{`\bshall\b`, "must, will, or the field and its value", nil},
	{`\b[Mm]ishaps?\b`, "faults", nil},
	{`\bgoes +on\b`, "continues, resumes, keeps running", nil},
}

// privateWords checks comments and strings in Go files, and the complete text of Markdown, Starlark, YAML and scripts.
func privateWords(tr tree) []string {
	var broken []string
	for _, w := range privateWordList {
		pattern := regexp.MustCompile(w.pattern)
		broken = append(broken, tr.phrases(func(file, text string) [][]int {
			if slices.Contains(w.allowed, file) {
				return nil
			}
			return pattern.FindAllStringIndex(text, -1)
		}, w.instead)...)
	}
	return append(broken, tr.phrases(freeWho, "a subject that exists: a program that, users who")...)
}

// freeWho finds sentences that begin with "Who" and are not questions.
func freeWho(_, text string) [][]int {
	who := regexp.MustCompile("(?:^|[.!?:] |\n\n|[-*] )[ *\"`\n]*Who [a-z][^.?!|]*[.?!|\n]?")
	return slices.DeleteFunc(who.FindAllStringIndex(text, -1), func(at []int) bool { return text[at[1]-1] == '?' })
}

// phrases passes all prose of the tree to find, which returns the positions of violations. Line breaks within a
// paragraph count as spaces.
func (tr tree) phrases(find func(file, text string) [][]int, instead string) []string {
	var broken []string
	look := func(file string, first int, original, text string) {
		for _, at := range find(file, text) {
			phrase := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			line := first + strings.Count(original[:at[1]-1], "\n")
			broken = append(broken, fmt.Sprintf("%s:%d: %q: %s", file, line, phrase, instead))
		}
	}
	for _, s := range tr.sources {
		if s.path == "prose_test.go" || strings.Contains(s.path, "testdata/") {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				look(s.path, tr.fset.Position(text.Pos()).Line, text.Value, text.Value)
			}
			return true
		})
		for _, group := range s.syntax.Comments {
			original := s.text[tr.fset.Position(group.Pos()).Offset:tr.fset.Position(group.End()).Offset]
			look(s.path, tr.fset.Position(group.Pos()).Line, original, paragraphs(original))
		}
	}
	for _, name := range tr.names {
		if readsAsProse(name) {
			text := tr.read(name)
			look(name, 1, text, paragraphs(text))
		}
	}
	return broken
}

func readsAsProse(name string) bool {
	return !strings.Contains(name, "testdata/") && !strings.HasPrefix(name, "deploy/third_party/") &&
		(slices.Contains([]string{".md", ".star", ".yaml", ".sh"}, path.Ext(name)) ||
			path.Base(name) == "Makefile" || strings.HasPrefix(name, "tools/scripts/"))
}

// paragraphs blanks comment markers and indentation at the beginning of lines, without changing the length of the text.
func paragraphs(text string) string {
	blank := func(match string) string {
		if strings.Count(match, "\n") > 1 {
			return "\n\n" + strings.Repeat(" ", len(match)-2)
		}
		return strings.Repeat(" ", len(match))
	}
	text = regexp.MustCompile(`(?m)^[ \t]*(?://|#+)?[ \t]*$`).ReplaceAllStringFunc(text, func(match string) string {
		return strings.Repeat(" ", len(match))
	})
	text = regexp.MustCompile(`\A(?://|/\*|#)[ \t]*`).ReplaceAllStringFunc(text, blank)
	return regexp.MustCompile(`[ \t]*\n(?:[ \t]*\n)*[ \t]*(?:(?://|#|>)[ \t]*)?`).ReplaceAllStringFunc(text, blank)
}

// sharedNames finds unexported functions with a name that several packages use, so that a search can't find them. A
// name of one word may occur in one package only. "close" is exempt, because it is io.Closer's method.
func sharedNames(tr tree) []string {
	packages := map[string]map[string]bool{}
	for _, s := range tr.sources {
		for _, d := range s.syntax.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.test() || ast.IsGenerated(s.syntax) || f.Name.IsExported() {
				continue
			}
			if packages[f.Name.Name] == nil {
				packages[f.Name.Name] = map[string]bool{}
			}
			packages[f.Name.Name][s.folder()] = true
		}
	}
	var broken []string
	for name, in := range packages {
		most := mostPackages
		if name == strings.ToLower(name) {
			most = 1
		}
		if len(in) > most && !slices.Contains([]string{"main", "init", "close", "_"}, name) {
			broken = append(broken, fmt.Sprintf("%s is a function of %d packages, more than %d: name its object", name,
				len(in), most))
		}
	}
	slices.Sort(broken)
	return broken
}

// unusedExports finds exported functions, constants and variables that no other package uses, nor a test from outside
// of the package. A name counts as used if another package selects it from anything, so the rule can miss some.
func unusedExports(tr tree) []string {
	users := map[string]map[string]bool{} // packages by name
	packageOf := func(s source) string { return s.folder() + "." + s.syntax.Name.Name }
	for _, s := range tr.sources {
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if selected, ok := n.(*ast.SelectorExpr); ok {
				name := selected.Sel.Name
				if users[name] == nil {
					users[name] = map[string]bool{}
				}
				users[name][packageOf(s)] = true
			}
			return true
		})
	}
	var broken []string
	for _, s := range tr.code() {
		if s.syntax.Name.Name == "main" || ast.IsGenerated(s.syntax) || strings.HasPrefix(s.folder(), "test/") {
			continue
		}
		for _, name := range exportedValues(s.syntax) {
			others := maps.Clone(users[name])
			delete(others, packageOf(s))
			if len(others) == 0 {
				broken = append(broken, fmt.Sprintf("%s: no other package uses %s: unexport it", s.path, name))
			}
		}
	}
	return broken
}

// exportedValues returns the names of the exported functions, variables and constants without a type of their own.
func exportedValues(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok || v.Type != nil || len(v.Values) == 0 || !v.Names[0].IsExported() {
					continue
				}
				if _, converted := v.Values[0].(*ast.CallExpr); !converted || d.Tok == token.VAR {
					names = append(names, v.Names[0].Name)
				}
			}
		}
	}
	return names
}

func TestProseRulesBite(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule, file, text, want string
	}{
		{"line width", "a/x.go", "package a\n\t" + strings.Repeat("// x", 30), "a/x.go:2 has 124 columns"},
		{"line width", "a/x_test.go", "package a\n// ää " + strings.Repeat("ö", 115), "a/x_test.go:2 has 121 columns"},
		{
			"prose", "a/x.go", "package a\n\n// F tells\n// whether.\nfunc F() {}",
			`a/x.go:4: "tells whether": reports whether`,
		},
		{"prose", "a/x.go", "package a\nconst c = \"x says whether\"", `a/x.go:2: "says whether"`},
		{"prose", "a/x_test.go", "package a\n// nobody\n", `a/x_test.go:2: "nobody": name who`},
		{"prose", "x.md", "# T\n\nIt is for\nSomebody else.\n", `x.md:4: "Somebody"`},
		{"prose", "x.yaml", "# stands still\n", `x.yaml:1: "stands still"`},
		{"prose", "x.star", "# until the\n# word to stop\n", `x.star:2: "the word to"`},
		{"prose", "x.md", "It was  told.\n", `x.md:1: "was told"`},
		{"prose", "Makefile", "x: ## It shall.\n", `Makefile:1: "shall"`},
		{"prose", "tools/scripts/x", "# mishaps\n", `tools/scripts/x:1: "mishaps"`},
		{"prose", "x.md", "It goes on.\n", `x.md:1: "goes on"`},
		{"prose", "a/x.go", "package a\n\n// Who reads it sees\n// it.\n", `"Who reads it sees it."`},
		{"prose", "a/x.go", "package a\n\n// It is so.\n// Who knows, knows.\n", `a/x.go:4: ". Who knows, knows."`},
		{"prose", "a/x.go", "package a\nconst c = `Who is there, is there.`\n", "Who is there, is there."},
		{"prose", "x.md", "text\n\nWho asks is\nanswered.\n", "Who asks is answered."},
		{"prose", "x.md", "- Who asks", "- Who asks"},
	}
	for _, tt := range tests {
		t.Run(tt.rule+"/"+tt.want, func(t *testing.T) {
			t.Parallel()
			bite(t, proseRules, tt.rule, tt.want, fstest.MapFS{tt.file: {Data: []byte(tt.text)}})
		})
	}
}

// A name of one word may occur in one package, a longer name in six.
func TestNamesAreNotShared(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"a/x.go":      {Data: []byte("package a\nfunc (a) take() {}\nfunc (b) take() {}\nfunc once() {}")},
		"b/x.go":      {Data: []byte("package b\nfunc take() {}\nfunc takeTurn() {}")},
		"b/x_test.go": {Data: []byte("package b\nfunc once() {}")},
	}
	bite(t, proseRules, "names", "take is a function of 2 packages, more than 1", files)
	for _, name := range []string{"c", "d", "e", "f", "g", "h"} {
		files[name+"/x.go"] = &fstest.MapFile{Data: []byte("package x\nfunc takeTurn() {}")}
	}
	bite(t, proseRules, "names", "takeTurn is a function of 7 packages, more than 6", files)
	require.Len(t, sharedNames(readTree(t, files)), 2)
}

// An exported name is used by another package, or by a test from outside of its own.
func TestExportsAreUsed(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"a/x.go":      {Data: []byte("package a\nfunc One() {}\nfunc Two() {}\nconst Three, four = 3, 4\nconst Five T = 5")},
		"a/x_test.go": {Data: []byte("package a_test\nvar x = a.Two")},
		"b/x.go":      {Data: []byte("package b\nvar x = a.Three")},
	}
	bite(t, proseRules, "exports", "a/x.go: no other package uses One: unexport it", files)
	require.Len(t, unusedExports(readTree(t, files)), 1)
	files["a/y.go"] = &fstest.MapFile{Data: []byte("package a\nvar x = a.One\nvar Six = f()")}
	require.Len(t, unusedExports(readTree(t, files)), 2)
}

// The rules accept natural English.
func TestProseRulesSpare(t *testing.T) {
	t.Parallel()
	natural := readTree(t, fstest.MapFS{
		"a/x.go": {Data: []byte("package a\n\n// F reports whether. Who may? A user who asks.\nfunc (T) Tells() {}\n" +
			"//go:generate " + strings.Repeat("x ", 60) + "\n// +kubebuilder:" + strings.Repeat("x ", 60) + "\n" +
			"// https://" + strings.Repeat("x", 120) + "\nconst c = `\n" + strings.Repeat("x ", 70) + "\n`\n" +
			"const d = `" + strings.Repeat("x ", 70) + "`\n")},
		"x.md": {
			Data: []byte("# Who reads\n\nWho may do what?\n\nPeople who ask.\n\n| user | Who is there |\n"),
		},
		"testdata/x.md": {Data: []byte("nobody\n")},
	})
	for _, r := range proseRules {
		require.Empty(t, r.broken(natural), r.name)
	}
}
