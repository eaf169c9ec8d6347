package vmtypestest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/sample"
	"vmop/vmtypes/vmtypestest"
)

var update = flag.Bool("update", false, "rewrite the expected texts")

// Authors read what is wrong, where, and all of it.
func TestFailures(t *testing.T) {
	t.Parallel()
	results, err := vmtypestest.Test(t.Context(), "testdata")
	require.NoError(t, err)
	var b strings.Builder
	for _, r := range results {
		verdict := "passes"
		if len(r.Failures) > 0 {
			verdict = "fails"
		}
		fmt.Fprintf(&b, "%s %s %s\n", r.File, r.Function, verdict)
		for _, f := range r.Failures {
			b.WriteString("  " + strings.ReplaceAll(f.Error(), "\n", "\n  ") + "\n")
		}
	}
	const path = "testdata/failing.txt"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

func TestFolderMustHaveTests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, want string }{
		"no folder":      {"", "", "no such file or directory"},
		"no file":        {"x.star", "", "there is no file whose name ends in _test.star"},
		"no function":    {"x_test.star", "def tset_x(): pass\n", "x_test.star has no function whose name begins with test_"},
		"syntax error":   {"x_test.star", "def test_x(:\n", "x_test.star:1:13: "},
		"assert outside": {"x_test.star", "load(\"@vmtypes//testing.star\", \"assert\")\nassert.eq(1, 2)\n", "can be called by functions named test_… only"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "types")
			if c.file != "" {
				require.NoError(t, os.Mkdir(dir, 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600))
			}
			_, err := vmtypestest.Test(t.Context(), dir)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestGoldenIsWrittenAndReadBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "small.txtar")
	require.NoError(t, os.WriteFile(path, []byte("Small.\n-- vm.yaml --\nmaximumRam: 256Mi\n-- host.json --\n{\"kvm\": true}\n"), 0o600))
	g, err := sample.Read(path)
	require.NoError(t, err)
	require.Equal(t, 256*vmspec.MiB, g.VM.MaximumRAM)
	require.True(t, g.Host.KVM)
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	p, err := g.Plan(t.Context(), library)
	require.NoError(t, err)
	require.NoError(t, g.Write(p.Text()))
	again, err := sample.Read(path)
	require.NoError(t, err)
	require.Equal(t, p.Text(), again.Text)
	require.Equal(t, g.VM, again.VM)
}

func TestGoldenFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no comment":      {"-- vm.yaml --\n", "it has no comment"},
		"unknown section": {"x\n-- vm.yml --\n", "the section vm.yml is unknown"},
		"misspelt key":    {"x\n-- vm.yaml --\nusetpm: true\n", "vm.usetpm: unknown key (did you mean useTpm?)"},
		"wrong value":     {"x\n-- vm.yaml --\nmaximumRam: 1\n", "vm.maximumRam: is less than 1 MiB"},
		"misspelt fact":   {"x\n-- host.json --\n{\"file\": []}\n", "unknown field \"file\" (did you mean files?)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.txtar")
			require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
			_, err := sample.Read(path)
			require.ErrorContains(t, err, c.want)
		})
	}
}
