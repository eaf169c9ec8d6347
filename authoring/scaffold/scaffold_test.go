package scaffold_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/format"
	"vmop/authoring/scaffold"
	"vmop/authoring/vmtypestest"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

const demanding = `"""demanding: a type with mandatory options."""

options = {
    "address": attr.string(mandatory = True),
    "size": attr.size(mandatory = True, minimum = "1 MiB"),
    "fast": attr.bool(mandatory = True),
    "ports": attr.list(attr.int(), mandatory = True),
}

def launch(vm, host):
    """Returns a machine."""
    return part(executable = "/bin/qemu", options = [option("-m", vm.options.size), option("-name", vm.options.address)])
`

// inProcess evaluates trusted types in this process.
type inProcess struct{}

func (inProcess) Describe(ctx context.Context, source vmtypes.Source, name string) (d vmtypes.Description, err error) {
	t, err := source.Library().Load(ctx, name)
	if err == nil {
		d = t.Describe()
	}
	return d, err
}

func (inProcess) Launch(
	ctx context.Context, source vmtypes.Source, name string, vm vmspec.Spec, host vmtypes.Host,
) (*plan.Plan, error) {
	t, err := source.Library().Load(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.Launch(ctx, vm, host)
}

// The generated files pass their tests, are formatted, and have documentation.
func TestFilesAreFine(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	for _, from := range append(library.Names(), "demanding", "no-options") {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "demanding.star"), []byte(demanding), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "no-options.star"),
				[]byte("def launch(vm, host):\n    return part(executable = \"/bin/qemu\")\n"), 0o644))
			source, err := vmtypes.ReadSource(dir)
			require.NoError(t, err)
			files, err := scaffold.Files(t.Context(), inProcess{}, source, "my-type", from)
			require.NoError(t, err)
			var names []string
			for _, f := range files {
				names = append(names, f.Name)
				require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), []byte(f.Text), 0o644))
				if strings.HasSuffix(f.Name, ".star") {
					pretty, err := format.Source(f.Name, f.Text)
					require.NoError(t, err)
					require.Equal(t, pretty, f.Text)
				}
			}
			require.Equal(t, []string{"my-type.star", "my-type_test.star", "my-type.txtar"}, names)
			folder, err := vmtypestest.Find(dir)
			require.NoError(t, err)
			library, err := vmtypes.Open(dir)
			require.NoError(t, err)
			defer library.Close()
			var results []vmtypestest.Result
			require.NoError(t, folder.Run(t.Context(), vmtypestest.In(library), vmtypestest.Options{},
				func(some []vmtypestest.Result) { results = append(results, some...) }))
			require.Len(t, results, 3, "two tests and a sample")
			for _, r := range results {
				require.Empty(t, r.Failures, r.Name())
			}
			mine := vmtypes.DescribeModule(files[0].Name, files[0].Text)
			require.False(t, slices.ContainsFunc(mine.Functions, func(f vmtypes.Function) bool { return f.Doc == "" }))
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":           "it is empty",
		"a.b":        "use letters, digits, - and _",
		"../evil":    "use letters, digits, - and _",
		"-x":         "use letters, digits, - and _",
		"standard":   "a stock type has this name",
		"my_test":    "files with this name are tests",
		"testing":    "files with this name are tests",
		"broken-too": `mine.star:1:10: `,
	} {
		source := vmtypes.Source{Dir: "types", Modules: map[string]string{"mine.star": "options ="}}
		_, err := scaffold.Files(t.Context(), inProcess{}, source, name, "mine")
		require.ErrorContains(t, err, want)
	}
	_, err := scaffold.Files(t.Context(), inProcess{}, vmtypes.Source{}, "mine", "standrad")
	require.ErrorContains(t, err, "did you mean standard?")
}
