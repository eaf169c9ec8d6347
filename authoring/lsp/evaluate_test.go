package lsp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// said evaluates a folder with files and returns the diagnostics, one line each: "file:line:column: message". Numbers
// count from 0, as in the protocol.
func said(t *testing.T, files map[string]string, open map[string]*text) (*evaluation, []string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	e := inProcessOptions().evaluateFolder(t.Context(), dir, open)
	var lines []string
	for file, list := range e.diagnostics {
		for _, d := range list {
			if d.Code == "" { // package lint has its own tests
				lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", file, d.Range.Start.Line, d.Range.Start.Character,
					d.Message))
			}
		}
	}
	slices.Sort(lines)
	return e, lines
}

// launching returns a type with one statement in launch, on line 1.
func launching(statement string) string {
	return "def launch(vm, host):\n    " + statement +
		"\n    return part(executable = \"/usr/bin/qemu-system-x86_64\")\n"
}

func TestWhereMistakesAre(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what  string
		files map[string]string
		want  []string
	}{
		{"all is well", map[string]string{"a.star": launching("pass"), "b.star": "x = 1\n"}, nil},
		{
			"what can't be parsed",
			map[string]string{"a.star": "def launch(\n"},
			[]string{"a.star:1:0: got end of file, want ')'"},
		},
		{"of a VM without a description", map[string]string{"a.star": launching("vm.maximumRm")}, []string{
			"a.star:1:6: vm has no .maximumRm field or method (did you mean .maximumRam?)\n(with a VM with the " +
				"defaults; add a sample to use a different VM)",
		}},
		{"a mandatory option is none, without a sample", map[string]string{
			"a.star": "options = {\"x\": attr.string(mandatory = True)}\n\n" + launching("vm.options.x"),
		}, nil},
		{"a module that several load", map[string]string{
			"a.star": "load(\"m.star\", \"x\")\n\n" + launching("pass"),
			"b.star": "load(\"m.star\", \"x\")\n\n" + launching("pass"), "m.star": "x = y\n",
		}, []string{"m.star:0:4: undefined: y"}},
		{"in the library, at the call", map[string]string{
			"a.star": "load(\"@vmtypes//lib/qemu.star\", \"device\")\n\n" + launching("device(\"x\", {\"a,b\": 1})"),
		}, []string{"a.star:3:4: option: -device: property name \"a,b\" is not a valid property name of QEMU\nat " +
			"@vmtypes//lib/qemu.star:9\n(with a VM with the defaults; add a sample to use a different VM)"}},
		{"a plan that can't work", map[string]string{
			"a.star": "def launch(vm, host):\n    return part(executable = \"/q\", options = [\n        " +
				"option(\"-device\", \"x\", {\"id\": \"a\"}),\n        option(\"-device\", \"x\", {\"id\": " +
				"\"a\"}),\n    ])\n",
		}, []string{"a.star:3:8: -device: the device \"a\" is already defined at a.star:3 launch"}},
		{"devices that QEMU can't place", map[string]string{
			"a.star": "def launch(vm, host):\n    return part(executable = \"/q\", machine = {\"type\": \"q35\"}, " +
				"options = [\n        option(\"-device\", \"edu\", {\"addr\": \"5\"}),\n        option(\"-device\", " +
				"\"edu\", {\"addr\": \"0x5\"}),\n    ], hotplug = [hotplug.balloon(\"b\", 1)])\n",
		}, []string{
			"a.star:3:8: -device edu: addr=0x5 of the bus pcie.0 is already taken by -device edu (made at a.star:3 launch)",
			"a.star:4:",
		}},
		{"a test that fails", map[string]string{
			"a_test.star": "load(\"@vmtypes//testing.star\", \"assert\")\n\ndef test_it():\n    assert.eq(1, 2)\n",
		}, []string{"a_test.star:3:13: got 1, want 2"}},
		{"a sample that the runner would refuse", map[string]string{
			"a.star": launching("pass"),
			"a.yaml": "\"/Runner\":\n  vmType: a\n  vm:\n    name: x\n    firmware: bois\n",
		}, []string{"a.yaml:4:14: vm.firmware: can't be \"bois\" (did you mean bios? It can be bios, uefi, uefi-4m, " +
			"secure or secure-4m)"}},
		{"an option of a sample", map[string]string{
			"a.star": launching("pass"),
			"a.yaml": "\"/Runner\":\n  vmType: a\n  vm:\n    name: x\n    options:\n      nonsense: 1\n",
		}, []string{"a.yaml:5:6: vm.options.nonsense: "}},
		{"a plan that is another now", map[string]string{
			"a.star": launching("pass"), "a.txtar": "A sample.\n\n-- type --\na\n-- plan.txt --\ntype b\n",
		}, []string{"a.txtar:5:0: the plan differs from the golden: "}},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			_, lines := said(t, tt.files, nil)
			require.Len(t, lines, len(tt.want), "%q", lines)
			for i := range lines {
				require.True(t, strings.HasPrefix(lines[i], tt.want[i]), "got  %s\nwant %s", lines[i], tt.want[i])
			}
		})
	}
}

func TestOpenDocumentsHideFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.star": launching("fail(\"saved\")")}
	_, lines := said(t, files, map[string]*text{"a.star": newText(launching("fail(\"unsaved\")"))})
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "unsaved")
	_, lines = said(t, files, map[string]*text{"a.star": newText(strings.Repeat("#\n", vmtypes.MaxModule))})
	require.Equal(t, []string{fmt.Sprintf("a.star:0:0: a module has at most %d bytes", vmtypes.MaxModule)}, lines)
}

// A line shows the options that it creates for the first sample that reaches it, including options from called
// functions.
func TestWhatLinesMake(t *testing.T) {
	t.Parallel()
	e, lines := said(t, map[string]string{
		"a.star": "load(\"m.star\", \"m\")\n\n" +
			launching("if vm.bootMenu:\n        return combine(m(), part(executable = \"/q\", options = "+
				"[option(\"-S1\"), option(\"-S2\")]))"),
		"m.star": "def m():\n    return part(options = [option(\"-name\", vm) for vm in [\"x\", \"y\"]])\n",
		"b.yaml": "\"/Runner\":\n  vmType: a\n  vm:\n    name: x\n",
		"c.yaml": "\"/Runner\":\n  vmType: a\n  vm:\n    name: x\n    bootMenu: true\n",
	}, nil)
	require.Empty(t, lines)
	require.Equal(t, []made{
		{line: 5, sample: "c", own: []string{"-S1", "-S2"}, called: []string{"-name x", "-name y"}},
	}, e.made["a.star"])
	require.Equal(t, "→ -S1 and 3 more", e.made["a.star"][0].hintLabel())
	require.Equal(t, []made{{line: 2, sample: "c", own: []string{"-name x", "-name y"}}}, e.made["m.star"])
	require.Equal(t, "→ 2 options", made{called: []string{"-a", "-b"}}.hintLabel())
	require.Equal(t, "→ -a", made{called: []string{"-a"}}.hintLabel())
	require.Equal(t, "→ "+strings.Repeat("x", widestHint)+"…",
		made{own: []string{strings.Repeat("x", 200)}}.hintLabel())
}

// counted counts the launches.
type counted struct {
	inProcess
	launches int
}

func (c *counted) Launch(
	ctx context.Context, source vmtypes.Source, name string, vm vmspec.Spec, host vmtypes.Host,
) (*plan.Plan, error) {
	c.launches++
	return c.inProcess.Launch(ctx, source, name, vm, host)
}

// An evaluation tries a limited number of samples, because it is repeated whenever the author pauses.
func TestFewSamplesAreTried(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.star": "def launch(vm, host):\n    return part(executable = \"/bin/qemu\")\n"}
	for i := range mostTried + 5 {
		files[fmt.Sprintf("a-%d.txtar", i)] = "A VM.\n-- vm.yaml --\nnetwork: []\n"
	}
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	c, options := &counted{}, inProcessOptions()
	options.Evaluator = c
	options.evaluateFolder(t.Context(), dir, nil)
	require.Equal(t, mostTried, c.launches)
}
