package lsp

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A desk is a folder with open modules.
type desk struct {
	t      *testing.T
	s      *server
	folder *folder
	dir    string
}

// knowingMore is a QEMU with the options of the modules on the desk.
type knowingMore struct{ knowing }

func (knowingMore) Flags() []string {
	return []string{"-chardev", "-device", "-name", "-object", "-rtc"}
}

func onlyAt(at positionParams) rangeParams {
	return rangeParams{TextDocument: at.TextDocument, Range: span{at.Position, at.Position}}
}

// newDesk returns a folder with files after an evaluation. The modules are open.
func newDesk(t *testing.T, files map[string]string) *desk {
	t.Helper()
	options := inProcessOptions()
	options.QEMU = func(string) QEMU { return knowingMore{} }
	d := &desk{
		t: t, dir: t.TempDir(),
		s: &server{
			options: options, library: new(libraryCopy), folders: map[string]*folder{},
			editor: support{versionedEdits: true, createsFiles: true},
		},
	}
	d.folder = d.s.openFolder(place{dir: d.dir})
	for _, name := range slices.Sorted(maps.Keys(files)) {
		d.write(name, files[name])
	}
	d.evaluate()
	return d
}

// write changes a file, and its document if it is a module.
func (d *desk) write(name, content string) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(filepath.Join(d.dir, name), []byte(content), 0o600))
	if strings.HasSuffix(name, ".star") {
		document := &document{uri: d.uri(name), module: name}
		document.setContent(newText(content), 1)
		d.folder.open[name] = document
	}
}

func (d *desk) evaluate() {
	d.folder.result = d.s.options.evaluateFolder(d.t.Context(), d.dir, ownTexts(d.folder.open))
}

func (d *desk) uri(name string) string { return uriOf(filepath.Join(d.dir, name)) }

func (d *desk) text(name string) string {
	d.t.Helper()
	content, err := os.ReadFile(filepath.Join(d.dir, name))
	require.NoError(d.t, err)
	return string(content)
}

// at returns the position of the bar in a unique part of a module: "foo|bar".
func (d *desk) at(name, marked string) positionParams {
	d.t.Helper()
	before, after, _ := strings.Cut(marked, "|")
	text := d.folder.open[name].text
	require.Equal(d.t, 1, strings.Count(text.content, before+after), "%q in %s", before+after, text.content)
	offset := strings.Index(text.content, before+after) + len(before)
	return positionParams{TextDocument: documentID{d.uri(name)}, Position: text.positionOf(offset)}
}

// apply makes the changes of an edit.
func (d *desk) apply(edit *workspaceEdit) {
	d.t.Helper()
	for _, change := range edit.DocumentChanges {
		switch change := change.(type) {
		case createFile:
			path := strings.TrimPrefix(change.URI, "file://")
			require.NoFileExists(d.t, path)
			d.write(filepath.Base(path), "")
		case documentEdit:
			name := filepath.Base(change.TextDocument.URI)
			text := newText(d.text(name))
			slices.SortStableFunc(change.Edits, func(a, b textEdit) int {
				return text.offsetOf(b.Range.Start) - text.offsetOf(a.Range.Start)
			})
			for _, e := range change.Edits {
				text = text.applyChanges([]contentChange{{Range: &e.Range, Text: e.NewText}})
			}
			d.write(name, text.content)
		default:
			d.t.Fatalf("unknown change %T", change)
		}
	}
	d.evaluate()
}

// diagnosed returns the messages of all diagnostics.
func (d *desk) diagnosed() []string {
	list := []string{}
	for file, found := range d.folder.result.diagnostics {
		for _, one := range found {
			list = append(list, file+": "+one.Message)
		}
	}
	return list
}

func deskFiles() map[string]string {
	return map[string]string{
		"asset.star": `"""asset: a machine with a tag. 😀"""

load("parts.star", "tag", shelf = "board")

api_version = 1

options = {
    "asset": attr.string(default = "x", doc = "The tag."),
    "color": attr.string(default = "red", aliases = ["hue"]),
}

_SIZE = 4

def launch(vm, host):
    """Returns the machine."""
    parts = [tag(kind = "😀", text = vm.options.asset) for _ in range(_SIZE - 3)]
    return combine(parts, shelf(vm.options.color), part(executable = "/q"))
`,
		"parts.star": `"""Parts."""

def tag(kind, text = "none"):
    """The tag.

    Args:
      kind: what it looks like
      text: what is on it
    """
    return part(options = [option("-name", None, {"guest": kind + text})])

def board(color):
    """The board."""
    return part(options = [option("-rtc", None, {"base": color})])
`,
		"asset_test.star": `"""Tests."""

load("@vmtypes//testing.star", "assert", "plan_of")
load("asset.star", "launch")
load("parts.star", label = "tag")

def test_tag():
    """The tag is the user's."""
    plan = plan_of(launch, network = [], options = {"asset": "R2", "color": "blue"})
    assert.contains(plan.argv, "guest=😀R2")
    assert.eq(len(label("a").options), 1)
`,
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	d := newDesk(t, deskFiles())
	require.Empty(t, d.diagnosed())
	tags := []string{
		"asset.star:2:20", "asset.star:15:13", "asset_test.star:4:19", "asset_test.star:4:28", "asset_test.star:10:18",
		"parts.star:2:4",
	}
	for _, c := range []struct {
		file, marked string
		want         []string
	}{
		{"asset.star", `t|ag(kind`, tags},
		{"parts.star", `def t|ag(`, tags},
		{"asset.star", `_SI|ZE - 3`, []string{"asset.star:11:0", "asset.star:15:70"}},
		{"asset.star", `te|xt = vm`, []string{"asset.star:15:30", "parts.star:2:14", "parts.star:9:66"}},
		{"asset.star", `vm.options.ass|et`, []string{"asset.star:7:5", "asset.star:15:48", "asset_test.star:8:53"}},
		{"asset.star", `"ass|et": attr`, []string{"asset.star:7:5", "asset.star:15:48", "asset_test.star:8:53"}},
		{"asset.star", `sh|elf(vm`, []string{"asset.star:2:26", "asset.star:16:26"}},
		{"asset.star", `par|ts = [`, []string{"asset.star:15:4", "asset.star:16:19"}},
		{"asset.star", `com|bine(`, nil},
		{"asset.star", `a mac|hine`, nil},
	} {
		params := &referenceParams{positionParams: d.at(c.file, c.marked)}
		params.Context.IncludeDeclaration = true
		list, err := d.s.findReferences(t.Context(), params)
		require.NoError(t, err)
		var got []string
		for _, l := range list {
			got = append(got, fmt.Sprintf("%s:%d:%d",
				filepath.Base(l.URI), l.Range.Start.Line, l.Range.Start.Character))
		}
		require.Equal(t, c.want, got, c.marked)
		at := d.at(c.file, c.marked)
		marks, err := d.s.documentHighlight(t.Context(), &at)
		require.NoError(t, err)
		require.Equal(t, c.want == nil, len(marks) == 0, c.marked)
	}
	params := &referenceParams{positionParams: d.at("asset.star", "t|ag(kind")}
	list, err := d.s.findReferences(t.Context(), params)
	require.NoError(t, err)
	require.Len(t, list, 5, "without the definition")
}

// A renamed symbol has its new name in all modules, and the modules still have no findings.
func TestRename(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, marked, name string
		want               map[string][]string // lines that must exist afterwards
	}{
		{"asset.star", `t|ag(kind`, "sticker", map[string][]string{
			"asset.star": {
				`load("parts.star", "sticker", shelf = "board")`, `    parts = [sticker(kind = "😀", text`,
			},
			"parts.star":      {"def sticker(kind"},
			"asset_test.star": {`load("parts.star", label = "sticker")`, "len(label(\"a\")"},
		}},
		{"asset.star", `te|xt = vm`, "words", map[string][]string{
			"asset.star": {`tag(kind = "😀", words = vm.options.asset)`},
			"parts.star": {`def tag(kind, words = "none"):`, "kind + words"},
		}},
		{
			"asset.star", `sh|elf(vm`, "rack",
			map[string][]string{"asset.star": {`rack = "board")`, "rack(vm.options.color)"}},
		},
		{"asset.star", `_S|IZE = 4`, "_COUNT", map[string][]string{"asset.star": {"_COUNT = 4", "range(_COUNT - 3)"}}},
		{"parts.star", `def boa|rd`, "plank", map[string][]string{
			"asset.star": {`shelf = "plank")`, "shelf(vm.options"}, "parts.star": {"def plank(color):"},
		}},
		{"asset_test.star", `test_t|ag`, "test_label", map[string][]string{"asset_test.star": {"def test_label():"}}},
		{"asset.star", `vm.options.ass|et`, "sticker", map[string][]string{
			"asset.star":      {`    "sticker": attr.string(default = "x", doc = "The tag.", aliases = ["asset"]),`, "vm.options.sticker)"},
			"asset_test.star": {`options = {"sticker": "R2", "color"`},
		}},
		{"asset.star", `"co|lor": attr`, "tint", map[string][]string{
			"asset.star": {`    "tint": attr.string(default = "red", aliases = ["color", "hue"]),`, "vm.options.tint)"},
		}},
	} {
		t.Run(c.marked, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, deskFiles())
			at := d.at(c.file, c.marked)
			place, err := d.s.prepareRename(t.Context(), &at)
			require.NoError(t, err)
			require.LessOrEqual(t, place.Start.Character, at.Position.Character)
			edit, err := d.s.rename(t.Context(), &renameParams{at, c.name})
			require.NoError(t, err)
			d.apply(edit)
			for file, lines := range c.want {
				for _, line := range lines {
					require.Contains(t, d.text(file), line)
				}
			}
			require.Empty(t, d.diagnosed())
		})
	}
}

func TestRenameIsRefused(t *testing.T) {
	t.Parallel()
	files := deskFiles()
	files["other.star"] = `"""other: a type."""

load("@vmtypes//lib/qemu.star", "device")
load("@vmtypes//standard.star", standard = "launch", standard_options = "options")

api_version = 1

options = standard_options | {"mine": attr.string(default = "")}

def launch(vm, host):
    """Returns the machine."""
    return combine(standard(vm, host), part(options = [device("usb-kbd")] if vm.options.mine else []))
`
	for _, c := range []struct{ file, marked, name, want string }{
		{"asset.star", "com|bine(", "x", "combine is a builtin"},
		{"asset.star", "def lau|nch", "x", "vmrunner looks for the name launch"},
		{"asset.star", "launch(v|m, host)", "x", "vmrunner calls launch with the parameter vm"},
		{"asset.star", "api_ver|sion", "x", "vmrunner looks for the name api_version"},
		{"other.star", "[dev|ice(", "x", `device is a name of @vmtypes//lib/qemu.star; load it as another name: new_name = "device"`},
		{"asset.star", "t|ag(kind", "1x", "Starlark does not allow this name"},
		{"asset.star", "t|ag(kind", "class", "Starlark does not allow this name"},
		{"asset.star", "t|ag(kind", "a.b", "Starlark does not allow this name"},
		{"asset.star", "t|ag(kind", "part", "this is a builtin"},
		{"asset.star", "t|ag(kind", "len", "this is a builtin"},
		{"asset.star", "t|ag(kind", "_tag", "asset.star loads it, and a name with _ is private to its module"},
		{"asset.star", "t|ag(kind", "parts", "asset.star already uses this name"},
		{"asset.star", "vm.options.ass|et", "color", "asset.star already uses this name"},
		{"asset_test.star", "test_t|ag", "tag_test", "the names of tests begin with test_"},
	} {
		d := newDesk(t, files)
		at := d.at(c.file, c.marked)
		_, err := d.s.rename(t.Context(), &renameParams{at, c.name})
		require.ErrorContains(t, err, c.want, c.marked)
		if _, err := d.s.prepareRename(t.Context(), &at); err != nil {
			require.ErrorContains(t, err, c.want, c.marked)
		}
	}

	d := newDesk(t, files)
	d.write("broken.star", "def f(\n")
	at := d.at("asset.star", "t|ag(kind")
	_, err := d.s.rename(t.Context(), &renameParams{at, "x"})
	require.ErrorContains(t, err, "broken.star has a syntax error; correct it first")
	at = d.at("asset.star", "sh|elf(vm")
	_, err = d.s.rename(t.Context(), &renameParams{at, "x"})
	require.NoError(t, err, "only in this module")
	at = d.at("broken.star", "de|f f(")
	_, err = d.s.prepareRename(t.Context(), &at)
	require.ErrorContains(t, err, "broken.star has a syntax error; correct it first")
	d.write("broken.star", "def f(vm):\n    return vm.options\n")
	at = d.at("asset.star", "vm.options.ass|et")
	_, err = d.s.rename(t.Context(), &renameParams{at, "x"})
	require.ErrorContains(t, err, "broken.star:2 uses vm.options as a value, so its uses of asset are unknown")
	at = d.at("asset.star", "a mac|hine")
	place, err := d.s.prepareRename(t.Context(), &at)
	require.NoError(t, err)
	require.Nil(t, place)

	d = newDesk(t, files)
	d.write("other.star", strings.ReplaceAll(files["other.star"], "mine", "usbController"))
	at = d.at("other.star", "vm.options.usbCon|troller")
	_, err = d.s.rename(t.Context(), &renameParams{at, "x"})
	require.NoError(t, err, "the library has no such option")
	d.write("other.star", strings.ReplaceAll(files["other.star"], "mine", "asset"))
	at = d.at("asset.star", "vm.options.ass|et")
	_, err = d.s.rename(t.Context(), &renameParams{at, "x"})
	require.ErrorContains(t, err, "asset.star and other.star declare the option asset")
}

const actionType = `"""a: a type."""

load("@vmtypes//lib/qemu.star", "chardev")
load("parts.star", "tag", "board")

options = {"size": attr.string(default = "")}

def launch(vm, host):
    """Returns the machine."""
    return combine(part(executable = "/q", options = [chardev("null", "c")]), tag("😀"), board(vm.options.size))
`

// After an action, its diagnostic is gone and no new one has appeared.
func TestCodeActions(t *testing.T) {
	t.Parallel()
	clean := strings.Replace(actionType, "options = {", "api_version = 1\n\noptions = {", 1)
	for _, c := range []struct{ what, source, marked, title, want string }{
		{"version", actionType, "def lau|nch", "Add api_version = 1", "\"board\")\n\napi_version = 1\n\noptions"},
		{
			"unused name", strings.Replace(clean, `"tag", "board"`, `"tag", x = "board", board = "board"`, 1),
			`"tag", |x`, "Remove the unused load of x", `load("parts.star", "tag", board = "board")`,
		},
		{
			"unused load",
			strings.Replace(clean, `load("parts`, "load(\"@vmtypes//lib/cpus.star\", \"cpus\")\nload(\"parts", 1),
			`cpus.star", "cp|us"`, "Remove the unused load of cpus", "\"chardev\")\nload(\"parts.star\"",
		},
		{
			"load of a new part",
			strings.Replace(clean, "combine(", `combine(part(options = [device("usb-kbd")]), `, 1),
			`[dev|ice(`, "Load device from @vmtypes//lib/qemu.star", `load("@vmtypes//lib/qemu.star", "chardev", "device")`,
		},
		{
			"load of a new module",
			strings.Replace(clean, "combine(", "combine(entropy(vm, host) if vm.name == \"?\" else [], ", 1),
			"ent|ropy(vm", "Load entropy from @vmtypes//lib/entropy.star",
			"\"chardev\")\nload(\"@vmtypes//lib/entropy.star\", \"entropy\")\nload(\"parts.star\"",
		},
		{
			"load from the folder", strings.Replace(clean, `"tag", "board"`, `"tag"`, 1),
			"boa|rd(vm", "Load board from parts.star",
			`load("parts.star", "tag", "board")`,
		},
		{
			"option", strings.Replace(clean, "vm.options.size", `("😀" + vm.options.sze)`, 1), "vm.options.s|ze",
			"Replace sze with size", "vm.options.size)",
		},
		{
			"field", strings.Replace(clean, "vm.options.size", `(vm.options.size + vm.firmwre)`, 1), "vm.firm|wre",
			"Replace firmwre with firmware", "vm.firmware)",
		},
		{
			"undefined", strings.Replace(clean, `tag("😀")`, `tga("😀")`, 1), "t|ga(",
			"Replace tga with tag", `, tag("😀")`,
		},
		{
			"keyword", strings.Replace(clean, `tag("😀")`, `tag(kid = "😀")`, 1), "tag(ki|d", "Replace kid with kind",
			`tag(kind = "😀")`,
		},
		{
			"device", strings.Replace(clean, `chardev("null", "c")`,
				`chardev("null", "c"), option("-device", "usb-kdb", {})`, 1),
			`usb-k|db`, "Replace usb-kdb with usb-kbd", `option("-device", "usb-kbd", {})`,
		},
		{
			"all", strings.Replace(actionType, `"tag", "board"`, `"tag", "board", x = "board"`, 1), `ch|ardev("null"`,
			"Correct all findings of lint that have one correction", "api_version = 1",
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, map[string]string{
				"a.star": c.source, "parts.star": deskFiles()["parts.star"],
				"a.yaml": "\"/Runner\": {vmType: a, vm: {name: x, options: {size: utc}}}\n",
			})
			before := d.diagnosed()
			require.NotEmpty(t, before)
			at := d.at("a.star", c.marked)
			params := &codeActionParams{rangeParams: onlyAt(at)}
			actions, err := d.s.codeAction(t.Context(), params)
			require.NoError(t, err)
			i := slices.IndexFunc(actions, func(a codeAction) bool { return a.Title == c.title })
			require.GreaterOrEqual(t, i, 0, "%+v\n%q", actions, before)
			d.apply(actions[i].Edit)
			require.Contains(t, d.text("a.star"), c.want)
			require.Empty(t, d.diagnosed(), d.text("a.star"))
		})
	}
}

// A type without a sample gets one with its plan.
func TestSampleIsAdded(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a.star": `"""a: a type."""

api_version = 1

options = {"size": attr.string(mandatory = True, values = ["large"])}

def launch(vm, host):
    """Returns the machine."""
    if vm.firmware != "bios":
        fail("only a BIOS")
    return part(executable = "/q", options = [option("-name", None, {"guest": vm.options.size})])
`})
	require.Equal(t, []string{"a.star: no test covers a: no *_test.star file loads it, and it has no sample"}, d.diagnosed())
	at := d.at("a.star", "def lau|nch")
	params := &codeActionParams{rangeParams: onlyAt(at)}
	actions, err := d.s.codeAction(t.Context(), params)
	require.NoError(t, err)
	require.Len(t, actions, 1)
	require.Equal(t, "Add the sample a.txtar", actions[0].Title)
	d.apply(actions[0].Edit)
	require.Contains(t, d.text("a.txtar"), "guest=large")
	require.Empty(t, d.diagnosed())

	params.Context.Only = []string{"source"}
	actions, err = d.s.codeAction(t.Context(), params)
	require.NoError(t, err)
	require.Empty(t, actions)
}

func TestFoldingAndSymbols(t *testing.T) {
	t.Parallel()
	d := newDesk(t, deskFiles())
	ranges, err := d.s.foldingRange(t.Context(), &documentParams{documentID{d.uri("asset_test.star")}})
	require.NoError(t, err)
	require.Equal(t, []foldingRange{{2, 4, "imports"}, {6, 10, ""}}, ranges)
	ranges, err = d.s.foldingRange(t.Context(), &documentParams{documentID{d.uri("parts.star")}})
	require.NoError(t, err)
	require.Contains(t, ranges, foldingRange{3, 8, "comment"})
	symbols, err := d.s.workspaceSymbol(t.Context(), &symbolParams{"TAG"})
	require.NoError(t, err)
	require.Equal(t, []symbolInformation{
		{
			"test_tag", symbolFunction,
			location{d.uri("asset_test.star"), span{position{6, 4}, position{6, 12}}},
			"asset_test.star",
		},
		{"tag", symbolFunction, location{d.uri("parts.star"), span{position{2, 4}, position{2, 7}}}, "parts.star"},
	}, symbols)
}
