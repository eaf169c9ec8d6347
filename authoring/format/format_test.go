package format_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/format"
	"vmop/test/tier"
	"vmop/vmtypes"
)

// ugly contains everything that formatting changes.
const ugly = `load("b.star","b","a")
load('a.star', 'c')
def f(x,y = 1):
  return { "k":x,
     'l' : [1,2,
     3] }
x = f( 1 ) if a else   None # comment
`

// Source returns the same text as the tool of "make format", for the existing files and for these files without their
// layout.
func TestSameAsBuildifier(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := t.TempDir()
	texts := map[string]string{"ugly.star": ugly, "empty.star": ""}
	for _, folder := range []string{"../../vmtypes", "../../examples"} {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".star" || strings.Contains(path, "testdata") {
				return err
			}
			text, err := os.ReadFile(path)
			name := strings.ReplaceAll(strings.ReplaceAll(path, "../", ""), "/", "-")
			texts[name] = string(text)
			texts["dense-"+name] = strings.ReplaceAll(strings.ReplaceAll(string(text), "\n\n", "\n"), ", ", ",")
			return err
		})
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, len(texts), 30)
	args := []string{"tool", "-modfile=../../tools/go.mod", "buildifier", "-type=default"}
	for name, text := range texts {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		args = append(args, path)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, text := range texts {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		got, err := format.Source(name, text)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "%s", name)
		again, err := format.Source(name, got)
		require.NoError(t, err)
		require.Equal(t, got, again, "%s is formatted, and formatting changes it", name)
	}
}

func TestErrorsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	_, err := format.Source("x.star", "a = 1\nb = (1,\ndef f():\n    pass\n")
	var located *vmtypes.Error
	require.ErrorAs(t, err, &located)
	require.Equal(t, "x.star:3:1: got def, want primary expression\n    3 | def f():\n      | ^", err.Error())
}
