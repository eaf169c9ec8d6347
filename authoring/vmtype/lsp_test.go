package vmtype_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/stretchr/testify/require"

	"vmop/test/wait"
)

// An editor is a session with the real language server.
type editor struct {
	t       *testing.T
	dir     string
	client  *jrpc2.Client
	program *exec.Cmd
	// published receives the diagnostics.
	published chan published
	// registered receives the methods that the server registers for.
	registered chan string
	versions   map[string]int
	texts      map[string]string
}

type published struct {
	URI         string       `json:"uri"`
	Version     int          `json:"version"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type diagnostic struct {
	Range    lspRange `json:"range"`
	Severity int      `json:"severity"`
	Code     string   `json:"code"`
	Message  string   `json:"message"`
}

type lspRange struct {
	Start lspPosition `json:"start"`
	End   lspPosition `json:"end"`
}

type lspPosition struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type object map[string]any

// startEditor starts the server for a folder with files.
func startEditor(t *testing.T, files map[string]string) *editor {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	e := &editor{
		t: t, dir: dir, published: make(chan published, 1000), registered: make(chan string, 10),
		versions: map[string]int{}, texts: map[string]string{},
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	e.program = exec.Command("vmrunner", "vmtype", "lsp")
	e.program.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir())
	e.program.Stderr = os.Stderr
	in, err := e.program.StdinPipe()
	require.NoError(t, err)
	out, err := e.program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, e.program.Start())
	e.client = jrpc2.NewClient(channel.LSP(out, in), &jrpc2.ClientOptions{OnNotify: e.notified, OnCallback: e.asked})
	t.Cleanup(func() {
		_ = e.client.Close()
		_ = e.program.Process.Kill() // normally, it has already ended
		_, _ = e.program.Process.Wait()
	})
	var answer struct {
		Capabilities map[string]any `json:"capabilities"`
	}
	workspace := object{
		"didChangeWatchedFiles": object{"dynamicRegistration": true},
		"inlayHint":             object{"refreshSupport": true},
	}
	e.call("initialize", object{"capabilities": object{"workspace": workspace}}, &answer)
	require.Equal(t, "utf-16", answer.Capabilities["positionEncoding"])
	e.notify("initialized", object{})
	return e
}

func (e *editor) notified(request *jrpc2.Request) {
	var p published
	if request.Method() == "textDocument/publishDiagnostics" && request.UnmarshalParams(&p) == nil {
		e.published <- p
	}
}

// asked answers the server's requests to the editor.
func (e *editor) asked(_ context.Context, request *jrpc2.Request) (any, error) {
	var params struct{ Registrations []struct{ Method string } }
	if request.Method() == "client/registerCapability" && request.UnmarshalParams(&params) == nil {
		e.registered <- params.Registrations[0].Method
	}
	return nil, nil
}

func (e *editor) call(method string, params, result any) {
	e.t.Helper()
	ctx, cancel := wait.Context(e.t.Context())
	defer cancel()
	require.NoError(e.t, e.client.CallResult(ctx, method, params, result), method)
}

func (e *editor) notify(method string, params any) {
	e.t.Helper()
	require.NoError(e.t, e.client.Notify(e.t.Context(), method, params))
}

func (e *editor) uri(name string) string { return "file://" + filepath.Join(e.dir, name) }

// open opens a file with its text.
func (e *editor) open(name string) {
	e.t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, name))
	require.NoError(e.t, err)
	e.versions[name], e.texts[name] = 1, string(text)
	e.notify("textDocument/didOpen",
		object{"textDocument": object{
			"uri": e.uri(name), "languageId": "starlark", "version": 1,
			"text": string(text),
		}})
}

// edit replaces a unique part of a document.
func (e *editor) edit(name, old, now string) {
	e.t.Helper()
	text := e.texts[name]
	require.Equal(e.t, 1, strings.Count(text, old), "%q in %s", old, text)
	at := strings.Index(text, old)
	e.versions[name]++
	e.notify("textDocument/didChange", object{
		"textDocument":   object{"uri": e.uri(name), "version": e.versions[name]},
		"contentChanges": []object{{"range": lspRange{place(text, at), place(text, at+len(old))}, "text": now}},
	})
	e.texts[name] = text[:at] + now + text[at+len(old):]
}

// place returns the UTF-16 position of a byte. The texts in this test only contain ASCII and emoji.
func place(text string, offset int) lspPosition {
	line := strings.Count(text[:offset], "\n")
	start := strings.LastIndex(text[:offset], "\n") + 1
	units := 0
	for _, r := range text[start:offset] {
		units++
		if r > 0xffff {
			units++
		}
	}
	return lspPosition{line, units}
}

// at returns the position of | in a marked part of a document: "vm.fir|mware".
func (e *editor) at(name, marked string) object {
	e.t.Helper()
	before, after, ok := strings.Cut(marked, "|")
	require.True(e.t, ok)
	at := strings.Index(e.texts[name], before+after)
	require.GreaterOrEqual(e.t, at, 0, "%q in %s", marked, e.texts[name])
	return object{"textDocument": object{"uri": e.uri(name)}, "position": place(e.texts[name], at+len(before))}
}

// diagnostics waits for the diagnostics of the current version of a document.
func (e *editor) diagnostics(name string) []diagnostic {
	e.t.Helper()
	timeout := wait.Over(e.t)
	for {
		select {
		case p := <-e.published:
			if p.URI == e.uri(name) && p.Version == e.versions[name] {
				return p.Diagnostics
			}
		case <-timeout:
			e.t.Fatalf("no diagnostics of %s", name)
		}
	}
}

func (e *editor) hover(name, marked string) string {
	e.t.Helper()
	var answer struct {
		Contents struct{ Value string } `json:"contents"`
	}
	e.call("textDocument/hover", e.at(name, marked), &answer)
	return answer.Contents.Value
}

func (e *editor) complete(name, marked string) []string {
	e.t.Helper()
	var answer struct {
		Items []struct{ Label string } `json:"items"`
	}
	e.call("textDocument/completion", e.at(name, marked), &answer)
	labels := []string{}
	for _, item := range answer.Items {
		labels = append(labels, item.Label)
	}
	return labels
}

type lspLocation struct {
	URI   string   `json:"uri"`
	Range lspRange `json:"range"`
}

// definition returns the file, the line (counted from 1), and the text of the line.
func (e *editor) definition(name, marked string) (file, line string) {
	e.t.Helper()
	var answer []lspLocation
	e.call("textDocument/definition", e.at(name, marked), &answer)
	if len(answer) == 0 {
		return "", ""
	}
	path := strings.TrimPrefix(answer[0].URI, "file://")
	text, err := os.ReadFile(path)
	require.NoError(e.t, err)
	return path, strings.Split(string(text), "\n")[answer[0].Range.Start.Line]
}

// leave ends the session like an editor.
func (e *editor) leave() {
	e.t.Helper()
	e.call("shutdown", nil, new(json.RawMessage))
	e.notify("exit", nil)
	require.NoError(e.t, e.program.Wait())
}

const assetType = `"""asset: the standard PC with an asset tag. 😀"""

load("@vmtypes//lib/qemu.star", "device")
load("@vmtypes//standard.star", standard = "launch", standard_options = "options")
load("parts.star", "tag")

api_version = 1

options = standard_options | {
    "asset": attr.string(default = "none", values = ["none", "R2-D2"], doc = "The tag on the case.", aliases = ["tag"]),
}

def launch(vm, host):
    """Returns the standard machine with a tag."""
    nics = [n.mac for n in vm.network]
    extra = [device("usb-kbd", {"id": "kbd0"})] if nics else []
    if vm.firmware == "bios":
        extra = []
    return combine(
        standard(vm, host),
        tag("😀", vm.options.asset),
        part(options = extra),
    )
`

const partsModule = `"""Parts of our machines."""

def tag(_kind, text):
    """The tag on the case.

    Args:
      _kind: what it looks like
      text: what is on it
    """
    return part(options = [option("-smbios", None, {"type": 3, "asset": text})])
`

const assetTest = `"""Tests of asset."""

load("@vmtypes//testing.star", "assert", "plan_of")
load("asset.star", "launch")

def test_tag():
    """The tag is the user's."""
    plan = plan_of(launch, network = [], options = {"asset": "R2-D2"})
    assert.contains(plan.argv, "type=3,asset=R2-D2")
`

func assetFiles() map[string]string {
	return map[string]string{"asset.star": assetType, "parts.star": partsModule, "asset_test.star": assetTest}
}

// A session works from the first file to its end.
func TestSession(t *testing.T) {
	t.Parallel()
	e := startEditor(t, assetFiles())
	e.open("asset.star")
	require.Empty(t, e.diagnostics("asset.star"))

	// A mistake that only the evaluation finds, at its place after an emoji.
	e.edit("asset.star", `tag("😀", vm.options.asset)`, `tag("😀", vm.options.aset)`)
	found := e.diagnostics("asset.star")
	require.NotEmpty(t, found)
	require.Contains(t, found[0].Message, ".aset")
	require.Contains(t, found[0].Message, "did you mean .asset?")
	require.Equal(t, place(e.texts["asset.star"], strings.Index(e.texts["asset.star"], ".aset")), found[0].Range.Start)

	// All undefined names together.
	e.edit("asset.star", "vm.options.aset)", "vm.options.asset + one + prat)")
	found = e.diagnostics("asset.star")
	require.GreaterOrEqual(t, len(found), 2)
	require.Contains(t, found[0].Message, "undefined: one")
	require.Contains(t, found[1].Message, "undefined: prat (did you mean part?)")
	e.edit("asset.star", "vm.options.asset + one + prat)", "vm.options.asset)")
	require.Empty(t, e.diagnostics("asset.star"))

	// Names that the installed QEMU does not support.
	e.edit("asset.star", `{"id": "kbd0"}`, `{"id": "kbd0", "prot": "1"}`)
	found = e.diagnostics("asset.star")
	require.Len(t, found, 1)
	require.Equal(t, "qemu-property", found[0].Code)
	require.Contains(t, found[0].Message, "port")
	e.edit("asset.star", `, "prot": "1"}`, "}")
	require.Empty(t, e.diagnostics("asset.star"))

	// A mistake in an unsaved module is shown in this module.
	e.open("parts.star")
	require.Empty(t, e.diagnostics("parts.star"))
	e.edit("parts.star", `{"type": 3,`, `{"ty,pe": 3,`)
	found = e.diagnostics("parts.star")
	require.Contains(t, found[0].Message, "is not a valid property name of QEMU")
	e.edit("parts.star", `{"ty,pe": 3,`, `{"type": 3,`)
	require.Empty(t, e.diagnostics("parts.star"))

	// A file changes that isn't open: a new sample.
	require.Equal(t, "workspace/didChangeWatchedFiles", <-e.registered)
	sample := filepath.Join(e.dir, "asset.yaml")
	require.NoError(t, os.WriteFile(sample,
		[]byte("\"/Runner\":\n  vmType: asset\n  vm:\n    name: x\n    options: {asset: gold}\n"), 0o644))
	e.notify("workspace/didChangeWatchedFiles", object{"changes": []object{{"uri": e.uri("asset.yaml"), "type": 1}}})
	found = e.diagnostics("asset.yaml")
	require.Contains(t, found[0].Message, `can't be "gold"`)
	require.Equal(t, 4, found[0].Range.Start.Line)
	require.NoError(t, os.Remove(sample))
	e.notify("workspace/didChangeWatchedFiles", object{"changes": []object{{"uri": e.uri("asset.yaml"), "type": 3}}})
	require.Empty(t, e.diagnostics("asset.yaml"))

	// A failed test is shown in the test file.
	e.open("asset_test.star")
	require.Empty(t, e.diagnostics("asset_test.star"))
	e.edit("asset_test.star", `"type=3,asset=R2-D2"`, `"type=3,asset=C-3PO"`)
	found = e.diagnostics("asset_test.star")
	require.Contains(t, found[0].Message, "C-3PO")
	require.Equal(t, 8, found[0].Range.Start.Line)
	e.leave()
}

func TestWhatTheServerKnows(t *testing.T) {
	t.Parallel()
	e := startEditor(t, assetFiles())
	e.open("asset.star")
	require.Empty(t, e.diagnostics("asset.star"))

	require.Contains(t, e.hover("asset.star", "vm.firm|ware"), "`bios`, `uefi`")
	require.Contains(t, e.hover("asset.star", "n.m|ac"), "The hardware address.")
	require.Contains(t, e.hover("asset.star", "vm.options.as|set"), "The tag on the case.")
	require.Contains(t, e.hover("asset.star", "vm.options.as|set"), "- formerly tag")
	require.Contains(t, e.hover("asset.star", "alia|ses ="), "former names")
	require.Contains(t, e.hover("asset.star", "t|ag(\""), "what is on it")
	require.Contains(t, e.hover("asset.star", "dev|ice(\""), "-device")
	require.Contains(t, e.hover("asset.star", "com|bine("), "The union of parts.")
	require.Contains(t, e.hover("asset.star", "opti|ons = extra"), "QEMU's options, in order")
	require.Contains(t, e.hover("asset.star", "attr.str|ing"), "An option that is a string.")
	require.Contains(t, e.hover("asset.star", "lib/qe|mu"), "QEMU's option groups by name")
	require.Contains(t, e.hover("asset.star", `parts.star", "t|ag`), "The tag on the case.")
	require.Empty(t, e.hover("asset.star", "asset: the stan|dard"))

	e.edit("asset.star", "    nics = ", "    vm.display.spice.\n    nics = ")
	require.Equal(t, []string{"port", "address", "streamingVideo", "usbRedirects"},
		e.complete("asset.star", "vm.display.spice.|"))
	e.edit("asset.star", "vm.display.spice.", "vm.options.")
	require.Equal(t, []string{"asset"}, filter(e.complete("asset.star", "vm.options.|"), "asset"))
	e.edit("asset.star", "    vm.options.\n", "    for d in vm.drives:\n        d.bo\n")
	require.Equal(t, []string{"bootindex"}, e.complete("asset.star", "d.bo|"))
	e.edit("asset.star", "d.bo", "host.ex")
	require.Equal(t, []string{"exists"}, e.complete("asset.star", "host.ex|"))
	e.edit("asset.star", "host.ex", "copy_once(sa")
	require.Equal(t, []string{"same_size = "}, e.complete("asset.star", "copy_once(sa|"))
	e.edit("asset.star", "copy_once(sa", "hotplug.")
	require.Contains(t, e.complete("asset.star", "hotplug.|"), "balloon")
	e.edit("asset.star", "hotplug.", "nic")
	require.Equal(t, []string{"nics"}, e.complete("asset.star", "nic|\n"))
	e.edit("asset.star", `vm.firmware == "bios"`, `vm.firmware == ""`)
	require.Equal(t, []string{"bios", "uefi", "uefi-4m", "secure", "secure-4m"},
		e.complete("asset.star", `vm.firmware == "|`))
	e.edit("asset.star", `load("parts.star", "tag")`, `load("@vmtypes//lib/t")`)
	require.Equal(t, []string{"@vmtypes//lib/tpm.star", "@vmtypes//lib/tuning.star"},
		e.complete("asset.star", `"@vmtypes//lib/t|`))
	e.edit("asset.star", `load("@vmtypes//lib/t")`, `load("par")`)
	require.Equal(t, []string{"parts.star"}, e.complete("asset.star", `load("par|`))
	e.edit("asset.star", `load("par")`, `load("parts.star", "")`)
	require.Equal(t, []string{"tag"}, e.complete("asset.star", `load("parts.star", "|`))

	e.edit("asset.star", `device("usb-kbd", {"id": "kbd0"})`, `device("usb-k")`)
	require.Contains(t, e.complete("asset.star", `device("usb-k|"`), "usb-kbd")
	e.edit("asset.star", `device("usb-k")`, `device("usb-kbd", {"dis")`)
	require.Equal(t, []string{"display"}, e.complete("asset.star", `{"dis|"`))

	var help struct {
		Signatures      []struct{ Label string }
		ActiveParameter int
	}
	e.call("textDocument/signatureHelp", e.at("asset.star", `device("usb-kbd", {|`), &help)
	require.Equal(t, "device(driver, props = {})", help.Signatures[0].Label)
	require.Equal(t, 1, help.ActiveParameter)
	e.leave()
}

func filter(words []string, want string) []string {
	var found []string
	for _, word := range words {
		if word == want {
			found = append(found, word)
		}
	}
	return found
}

func TestDefinitionsAndPresentation(t *testing.T) {
	t.Parallel()
	e := startEditor(t, assetFiles())
	e.open("asset.star")
	require.Empty(t, e.diagnostics("asset.star"))

	file, line := e.definition("asset.star", `t|ag("`)
	require.Equal(t, filepath.Join(e.dir, "parts.star"), file)
	require.Equal(t, "def tag(_kind, text):", line)
	file, line = e.definition("asset.star", "stand|ard(vm, host)")
	require.Equal(t, "def launch(vm, host, **parts):", line)
	require.True(t, strings.HasSuffix(file, "/standard.star"), file)
	_, line = e.definition("asset.star", `"@vmtypes//lib/qemu.star", "dev|ice"`)
	require.Equal(t, "def device(driver, props = {}):", line)
	_, line = e.definition("asset.star", "options = ext|ra")
	require.Contains(t, line, `extra = [device("usb-kbd"`)
	_, line = e.definition("asset.star", "vm.options.as|set")
	require.Contains(t, line, `"asset": attr.string(`)
	library := file

	// The copy of the library can also be opened. It stays, because editors restore their tabs.
	text, err := os.ReadFile(library)
	require.NoError(t, err)
	e.notify("textDocument/didOpen",
		object{"textDocument": object{"uri": "file://" + library, "version": 1, "text": string(text)}})
	var hover struct{ Contents struct{ Value string } }
	at := strings.LastIndex(string(text), "assemble(")
	e.call("textDocument/hover",
		object{"textDocument": object{"uri": "file://" + library}, "position": place(string(text), at)}, &hover)
	require.Contains(t, hover.Contents.Value, "Returns the sum of parts, a dict such as")

	var symbols []struct{ Name string }
	e.call("textDocument/documentSymbol", object{"textDocument": object{"uri": e.uri("asset.star")}}, &symbols)
	require.Len(t, symbols, 6)
	require.Equal(t, "launch", symbols[5].Name)

	var hints []struct {
		Position lspPosition
		Label    string
		Tooltip  string
	}
	whole := object{"textDocument": object{"uri": e.uri("asset.star")}, "range": lspRange{End: lspPosition{99, 0}}}
	e.call("textDocument/inlayHint", whole, &hints)
	labels := map[string]string{}
	for _, h := range hints {
		labels[strings.TrimSpace(strings.Split(e.texts["asset.star"], "\n")[h.Position.Line])] = h.Label
	}
	require.Equal(t, "→ -device usb-kbd,id=kbd0", labels[`extra = [device("usb-kbd", {"id": "kbd0"})] if nics else []`])
	require.Equal(t, "→ -smbios type=3,asset=none", labels[`tag("😀", vm.options.asset),`])
	require.Regexp(t, "^→ [0-9]+ options$", labels["standard(vm, host),"])

	e.edit("asset.star", "    return combine(\n", "    return combine( \n\n")
	var edits []struct {
		Range   lspRange
		NewText string
	}
	e.call("textDocument/formatting", object{"textDocument": object{"uri": e.uri("asset.star")}, "options": object{}},
		&edits)
	require.Len(t, edits, 1)
	require.Equal(t, assetType, edits[0].NewText)
	e.leave()
	require.FileExists(t, library)
}

// A module that exhausts its limits is stopped, and the server continues.
func TestHostileModules(t *testing.T) {
	t.Parallel()
	files := assetFiles()
	files["evil.star"] = "\"\"\"Evil.\"\"\"\n\nx = 1\n"
	e := startEditor(t, files)
	e.open("evil.star")
	require.Empty(t, e.diagnostics("evil.star"))
	e.edit("evil.star", "x = 1\n", "x = 'a' * 1000000000\n")
	found := e.diagnostics("evil.star")
	require.NotEmpty(t, found)
	require.Contains(t, found[0].Message, "memory")
	e.edit("evil.star", "x = 'a' * 1000000000\n", "x = [[j for j in range(i)] for i in range(1000000)]\n")
	require.NotEmpty(t, e.diagnostics("evil.star"))
	e.edit("evil.star", "x = [[j for j in range(i)] for i in range(1000000)]\n", "x = 2\n")
	require.Empty(t, e.diagnostics("evil.star"))
	e.leave()
}

// The server never starts the program that a type names, because the type may be untrusted.
func TestProgramsOfTypesAreNotStarted(t *testing.T) {
	t.Parallel()
	e := startEditor(t, nil)
	for _, name := range []string{"qemu-system-x86_64", "qemu-system-evil", "evil"} {
		program, started := filepath.Join(e.dir, name), filepath.Join(e.dir, name+".started")
		require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n: >"+started+"\n"), 0o755))
		file := "type-" + name + ".star"
		module := "\"\"\"x: a type.\"\"\"\n\napi_version = 1\n\ndef launch(vm, host):\n    \"\"\"Returns a " +
			"machine.\"\"\"\n" +
			"    return part(executable = \"" + program +
			"\", options = [option(\"-device\", \"usb-kbd\", {\"id\": \"a\"})])\n"
		require.NoError(t, os.WriteFile(filepath.Join(e.dir, file), []byte(module), 0o644))
		e.open(file)
		for _, d := range e.diagnostics(file) {
			require.Equal(t, "untested", d.Code, d.Message)
		}
		e.complete(file, `{"i|d"`)
		require.NoFileExists(t, started)
	}
	e.leave()
}

// The server ends when the editor dies or disconnects without a shutdown.
func TestEndOfSession(t *testing.T) {
	t.Parallel()
	e := startEditor(t, assetFiles())
	e.open("asset.star")
	require.NoError(t, e.client.Close()) // closes standard input
	require.NoError(t, e.program.Wait())

	e = startEditor(t, assetFiles())
	e.notify("exit", nil)
	err := e.program.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())

	e = startEditor(t, nil)
	_, err = e.client.Call(t.Context(), "textDocument/hover",
		object{"textDocument": object{"uri": "file:///x.star"}, "position": lspPosition{}})
	require.ErrorContains(t, err, "file:///x.star is not open")
	e.call("shutdown", nil, new(json.RawMessage))
	_, err = e.client.Call(t.Context(), "textDocument/hover", object{})
	require.ErrorContains(t, err, "after shutdown")
	e.notify("exit", nil)
	require.NoError(t, e.program.Wait())
}
