package vmop

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// rule is a requirement on the whole tree. broken returns each place that violates it, and what to do about it.
type rule struct {
	name   string
	why    string
	broken func(tree) []string
}

var architectureRules = []rule{
	{"drawn", "a package that is in no layer has no direction", undrawn},
	{"layers", "imports that point downwards make every package understandable by what is below it", upward},
	{"fences", "a library known in one place can be replaced there", overFence},
	{"never", "what knows nothing of another part can be used without it", forbidden},
	{
		"options", "VM types alone know QEMU's options: what the runner has to know of a machine, the plan says",
		optionsInRunner,
	},
	{"where is", "a reader who follows the table wants to arrive", lostWay},
}

func TestArchitecture(t *testing.T) {
	t.Parallel()
	enforce(t, architectureRules)
}

func enforce(t *testing.T, rules []rule) {
	t.Helper()
	whole := readTree(t, os.DirFS("."))
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			broken := r.broken(whole)
			require.Empty(t, broken, "because %s:\n%s", r.why, strings.Join(broken, "\n"))
		})
	}
}

// A program links only the packages that it needs. A runner stays resident next to every VM: Kubernetes libraries would
// double its memory, and every linked package is initialized at each start. Tools for authors of VM types are in
// cmd/vmtype.
func TestProgramsLinkOnlyWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	for program, foreign := range map[string][]string{
		"./cmd/vmrunner": {
			"vmop/authoring", "github.com/digitalocean", "\nk8s.io/", "\nsigs.k8s.io/", "\ngolang.org/x/net/http2\n",
			"vmop/manager", "github.com/coreos", "\ngolang.org/x/oauth2", "\ngolang.org/x/crypto",
		},
		"./cmd/vmmanager": {"vmop/authoring", "github.com/diskfs", "vmop/netsetup", "github.com/google/nftables"},
		"./cmd/vmimport":  {"vmop/authoring", "vmop/manager", "go.starlark.net", "\nk8s.io/"},
	} {
		var stderr strings.Builder
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", program)
		list.Stderr = &stderr
		out, err := list.Output()
		require.NoError(t, err, "%s", &stderr)
		for _, library := range foreign {
			require.NotContains(t, string(out), library, program)
		}
	}
}

// tree is the source that the rules check: all files of the module, and its parsed Go files.
type tree struct {
	files   fs.FS
	names   []string
	fset    *token.FileSet
	sources []source
}

type source struct {
	path   string // relative to the module's root, with slashes
	text   string
	syntax *ast.File
}

func (s source) test() bool     { return strings.HasSuffix(s.path, "_test.go") }
func (s source) program() bool  { return s.syntax.Name.Name == "main" }
func (s source) folder() string { return path.Dir(s.path) }
func (s source) isIn(folders string) bool { // a folder pattern, or "folder/..." to include the folders below it
	if matches, _ := path.Match(folders, s.folder()); matches {
		return true
	}
	above, all := strings.CutSuffix(folders, "/...")
	return s.folder() == above || all && strings.HasPrefix(s.folder(), above+"/")
}
func (s source) lines() int { return strings.Count(s.text, "\n") }
func (s source) imports() []string {
	var all []string
	for _, spec := range s.syntax.Imports {
		name, _ := strconv.Unquote(spec.Path.Value) // the parser has checked the quotes
		all = append(all, name)
	}
	return all
}

// at returns the position of a node as file:line.
func (tr tree) at(n ast.Node) string {
	p := tr.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// code returns the parsed files except tests.
func (tr tree) code() []source {
	return slices.DeleteFunc(slices.Clone(tr.sources), source.test)
}

// written returns the parsed files except tests and generated files.
func (tr tree) written() []source {
	return slices.DeleteFunc(tr.code(), func(s source) bool { return ast.IsGenerated(s.syntax) })
}

func (tr tree) read(name string) string {
	text, err := fs.ReadFile(tr.files, name)
	if err != nil {
		return ""
	}
	return string(text)
}

// readTree reads all files of the module except git's files, files that make creates, and the modules of tools.
func readTree(t *testing.T, files fs.FS) tree {
	t.Helper()
	tr := tree{files: files, fset: token.NewFileSet()}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains([]string{".git", "bin", "build"}, name) ||
			path.Dir(name) == "tools" && name != "tools/scripts"):
			return fs.SkipDir
		case !entry.Type().IsRegular(), name == ".git": // a file in a worktree
			return nil
		}
		tr.names = append(tr.names, name)
		if path.Ext(name) != ".go" {
			return nil
		}
		s := source{path: name, text: tr.read(name)}
		s.syntax, err = parser.ParseFile(tr.fset, name, s.text, parser.ParseComments|parser.SkipObjectResolution)
		tr.sources = append(tr.sources, s)
		return err
	})
	require.NoError(t, err)
	return tr
}

// block returns the lines of a fenced block of ARCHITECTURE.md.
func (tr tree) block(name string) []string {
	_, rest, _ := strings.Cut(tr.read("ARCHITECTURE.md"), "```"+name+"\n")
	text, _, _ := strings.Cut(rest, "```")
	return strings.Split(strings.TrimSpace(text), "\n")
}

const beside = -1 // the layer of packages that may import everything

// drawing returns the layer of each package, from the drawing in ARCHITECTURE.md.
func (tr tree) drawing() map[string]int {
	layers := map[string]int{}
	line := regexp.MustCompile(`^(?:layer (\d+)|beside) +(.*)$`)
	for _, text := range tr.block("layers") {
		match := line.FindStringSubmatch(text)
		if match == nil {
			continue
		}
		layer, err := strconv.Atoi(match[1])
		if err != nil {
			layer = beside
		}
		for _, name := range strings.Fields(match[2]) {
			layers[name] = layer
		}
	}
	return layers
}

func undrawn(tr tree) []string {
	layers := tr.drawing()
	exists := map[string]bool{}
	for _, s := range tr.code() {
		exists[s.folder()] = s.folder() != "." && !strings.Contains(s.path, "testdata/")
	}
	var broken []string
	for _, name := range slices.Sorted(maps.Keys(exists)) {
		if _, drawn := layers[name]; exists[name] && !drawn {
			broken = append(broken, name+" is not in the drawing of ARCHITECTURE.md: put it into its layer")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		if !exists[name] {
			broken = append(broken, name+" is drawn in ARCHITECTURE.md and does not exist")
		}
	}
	return broken
}

func upward(tr tree) []string {
	layers := tr.drawing()
	var broken []string
	for _, s := range tr.code() {
		from, drawn := layers[s.folder()]
		if !drawn || from == beside {
			continue
		}
		for _, imported := range s.imports() {
			name, ours := strings.CutPrefix(imported, "vmop/")
			if to, drawn := layers[name]; ours && drawn && (to == beside || to >= from) {
				broken = append(broken, fmt.Sprintf("%s (layer %d) imports %s (%s)", s.path, from, name, layerName(to)))
			}
		}
	}
	return broken
}

// lostWay checks the table "Where is …?" of ARCHITECTURE.md: each row names a file and a text that the file contains.
func lostWay(tr tree) []string {
	_, rest, _ := strings.Cut(tr.read("ARCHITECTURE.md"), "\n## Where is …?\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| (.*) \| \[.*\]\((.*)\) \| `+"`(.*)`"+` \|$`).FindAllStringSubmatch(table, -1)
	var broken []string
	if lines := strings.Count(table, "\n|"); lines != len(rows)+2 {
		broken = append(broken, fmt.Sprintf("%d of the table's %d lines are rows with a file and a text", len(rows),
			lines))
	}
	for _, row := range rows {
		if what, file, text := row[1], row[2], row[3]; !strings.Contains(tr.read(file), text) {
			broken = append(broken, fmt.Sprintf("%s: %s does not contain %s", what, file, text))
		}
	}
	return broken
}

func layerName(layer int) string {
	if layer == beside {
		return "beside the layers"
	}
	return "layer " + strconv.Itoa(layer)
}

func overFence(tr tree) []string {
	owners := map[string][]string{}
	for _, line := range tr.block("fences") {
		if words := strings.Fields(line); len(words) > 1 {
			library := words[len(words)-1]
			owners[library] = append(owners[library], words[:len(words)-1]...)
		}
	}
	owners["github.com/stretchr/testify"] = []string{
		"nothing but tests", "test/browser", "test/visitor", "test/guest", "test/invariants", "test/folder",
		"test/spice", "test/deaf", "test/paused", "test/ports", "test/wait", "test/pages", "test/systemd",
		"test/cluster/clustertest",
	}
	var broken []string
	for _, s := range tr.code() {
		for _, imported := range s.imports() {
			for library, allowed := range owners {
				inside := imported == library || strings.HasPrefix(imported, library+"/")
				if inside && !slices.ContainsFunc(allowed, s.isIn) {
					broken = append(broken, fmt.Sprintf("%s imports %s, which only %s may", s.path, imported,
						strings.Join(allowed, ", ")))
				}
			}
		}
	}
	return broken
}

func forbidden(tr tree) []string {
	var broken []string
	for _, line := range tr.block("never") {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		foreign := words[len(words)-1]
		for _, s := range tr.code() {
			if !slices.ContainsFunc(words[:len(words)-1], s.isIn) {
				continue
			}
			for _, imported := range s.imports() {
				if imported == foreign || strings.HasPrefix(imported, foreign+"/") {
					broken = append(broken, s.path+" imports "+imported+", which it must never do")
				}
			}
		}
	}
	return broken
}

// optionWord matches an option of QEMU, with any value in the same word, and the name of a device that only options
// use.
var optionWord = regexp.MustCompile(
	`^(-[A-Za-z][A-Za-z_-]*([ =].*)?|virtserialport|virtconsole|(virtio|vhost|usb|scsi|ide|tpm)-[a-z0-9-]+)$`)

// ownOptions returns the options of QEMU that the runner itself uses, for its monitor and for an incoming migration,
// with the number of times that each may occur below runner/. The last two are not options: QOM appends "-machine" to a
// machine's name, and "scsi-id" is the property with a device's position on its bus.
func ownOptions() map[string]int {
	return map[string]int{`"-S"`: 1, `"-chardev"`: 1, `"-mon"`: 1, `"-incoming"`: 1, `"-machine"`: 1, `"scsi-id"`: 2}
}

func optionsInRunner(tr tree) []string {
	var broken []string
	own := ownOptions()
	for _, s := range tr.code() {
		if s.folder() != "runner" && !strings.HasPrefix(s.folder(), "runner/") {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(literal.Value) // the parser has checked the quotes
			if !optionWord.MatchString(text) {
				return true
			}
			if own[literal.Value]--; own[literal.Value] < 0 {
				broken = append(broken, fmt.Sprintf("%s: %s: have the VM type state it, and read it from the plan",
					tr.at(literal), literal.Value))
			}
			return true
		})
	}
	return broken
}

// Each rule finds a violation.
func TestArchitectureRulesBite(t *testing.T) {
	t.Parallel()
	const where = "\n## Where is …?\n\n| What | File | Look for |\n|---|---|---|\n" +
		"| it | [a/x.go](a/x.go) | `func F` |\n| that | it has moved | |\n\n## Next\n"
	const drawing = "```layers\nlayer 1  a\nlayer 0  b  c\nbeside   test/x\n```\n```fences\na  " +
		"example.org/lib\nb/...  vmop/b\n```\n" +
		"```never\nb/...  c  vmop/far\n```\n"
	tests := []struct {
		rule, file, text, want string
	}{
		{"drawn", "odd/x.go", "package odd", "odd is not in the drawing"},
		{"drawn", "a/x.go", "package a", "b is drawn in ARCHITECTURE.md and does not exist"},
		{"layers", "b/x.go", `package b; import "vmop/a"`, "b/x.go (layer 0) imports a (layer 1)"},
		{"layers", "b/x.go", `package b; import "vmop/c"`, "b/x.go (layer 0) imports c (layer 0)"},
		{"layers", "a/x.go", `package a; import "vmop/test/x"`, "a/x.go (layer 1) imports test/x (beside the layers)"},
		{
			"fences", "b/x.go", `package b; import "example.org/lib/sub"`,
			"b/x.go imports example.org/lib/sub, which only a may",
		},
		{"fences", "a/x.go", `package a; import "vmop/b/sub"`, "a/x.go imports vmop/b/sub, which only b/... may"},
		{"fences", "b/x.go", `package b; import "github.com/stretchr/testify/require"`, "nothing but tests"},
		{
			"never", "b/sub/x.go", `package b; import "vmop/far/away"`,
			"b/sub/x.go imports vmop/far/away, which it must never do",
		},
		{"never", "c/x.go", `package c; import "vmop/far"`, "c/x.go imports vmop/far, which"},
		{"where is", "a/x.go", "package a", "it: a/x.go does not contain func F"},
		{"where is", "a/x.go", "package a; func F() {}", "1 of the table's 4 lines are rows"},
		{
			"options", "runner/x.go", `package runner; const flag = "-tpmdev"`,
			`runner/x.go:1: "-tpmdev": have the VM type state it`,
		},
		{
			"options", "runner/a/x.go", `package a; var mine, other = "-chardev", "-chardev"`,
			`runner/a/x.go:1: "-chardev"`,
		},
		{"options", "runner/x.go", "package runner; const driver = `virtio-balloon-pci`", "virtio-balloon-pci"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			bite(t, architectureRules, tt.rule, tt.want, fstest.MapFS{
				"ARCHITECTURE.md": {Data: []byte(drawing + where)}, tt.file: {Data: []byte(tt.text)},
			})
		})
	}
}

// bite requires that a rule reports the violation want in the files.
func bite(t *testing.T, rules []rule, name, want string, files fs.FS) {
	t.Helper()
	found := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
	require.GreaterOrEqual(t, found, 0, "no rule is called %s", name)
	require.Contains(t, strings.Join(rules[found].broken(readTree(t, files)), "\n"), want)
}
