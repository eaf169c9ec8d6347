package lint_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/lint"
	"vmop/test/tier"
	"vmop/vmtypes"
)

// shared contains the rules with exactly the same meaning as buildifier's rules. The other rules differ:
// unused-variable treats all parts of a tuple together and distinguishes variables with the same name,
// function-docstring requires no list of arguments, and name-conventions does not support providers.
var shared = []string{"load", "unreachable", "return-value", "confusing-name", "module-docstring"}

// tricky contains difficult cases for the shared rules.
var tricky = map[string]string{
	"flow.star": `"""Ways through functions."""
def a(x):
    if x:
        return 1
    else:
        fail("x")
    return 2
def b(x):
    for i in x:
        if i:
            continue
            a(i)
        break
    return x
def c(x):
    if x:
        return 1
    elif x == 2:
        return
    return 3
def d(x):
    if x:
        return 1
    fail("no")
def e(x):
    for y in x:
        return y
`,
	"names.star": `"""Names."""
load("b.star", "p", "q", r = "s")
def f(a, b = 1, *args, **kwargs):
    x, y = a
    z = [i for i, j in q]
    _w = 1
    def inner():
        return x
    return inner
def g(l):
    o = 1
    o += 1
    return [l for l in l]
t = lambda u: 1
`,
	"none.star": "x = 1\n",
}

// The shared rules have the same findings as the real buildifier.
func TestSharedRulesAreBuildifiers(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	sources := map[string]string{}
	for name, text := range tricky {
		sources[name] = text
	}
	for i, r := range lint.Rules() {
		sources[fmt.Sprintf("bad%d.star", i)], sources[fmt.Sprintf("good%d.star", i)] = r.Bad, r.Good
	}
	for i, name := range vmtypes.StockModules() {
		text, err := vmtypes.StockModule(name)
		require.NoError(t, err)
		sources[fmt.Sprintf("stock%d.star", i)] = text
	}
	got, want := []string{}, buildifier(t, sources)
	for name, text := range sources {
		for _, f := range lint.File(name, text, lint.Surroundings{}) {
			if slices.Contains(shared, f.Rule) {
				got = append(got, fmt.Sprintf("%s:%d: %s", name, f.Line, f.Rule))
			}
		}
	}
	slices.Sort(got)
	require.GreaterOrEqual(t, len(want), 15)
	require.Equal(t, strings.Join(want, "\n"), strings.Join(slices.Compact(got), "\n"))
}

// buildifier returns the findings of the real buildifier as file:line: rule, sorted.
func buildifier(t *testing.T, sources map[string]string) []string {
	t.Helper()
	dir := t.TempDir()
	args := []string{
		"tool", "-modfile=../../tools/go.mod", "buildifier", "-type=default", "-mode=check", "-lint=warn",
		"-format=json", "-warnings=" + strings.Join(shared, ","),
	}
	for name, text := range sources {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		args = append(args, filepath.Join(dir, name))
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, _ := cmd.Output() // it fails if there are findings
	var out struct {
		Files []struct {
			Filename string
			Warnings []struct {
				Start    struct{ Line int }
				Category string
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &out), "%s", &stderr)
	list := []string{}
	for _, f := range out.Files {
		for _, w := range f.Warnings {
			list = append(list, fmt.Sprintf("%s:%d: %s", filepath.Base(f.Filename), w.Start.Line, w.Category))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
