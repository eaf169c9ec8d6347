package vmtypes_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
)

var update = flag.Bool("update", false, "rewrite the expected texts")

// folder writes the .star files of an archive into a folder of custom types.
func folder(t *testing.T, files []txtar.File) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		if strings.HasSuffix(f.Name, ".star") {
			require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600))
		}
	}
	return dir
}

// launch loads the type called name from dir and launches a small VM with it.
func launch(ctx context.Context, dir, name string, options map[string]any) (string, error) {
	library, err := vmtypes.Open(dir)
	if err != nil {
		return "", err
	}
	defer library.Close()
	vmType, err := library.Load(ctx, name)
	if err != nil {
		return "", err
	}
	spec := smallVM()
	spec.Options = options
	p, err := vmType.Launch(ctx, spec, emptyHost())
	if err != nil {
		return "", err
	}
	return p.Text(), nil
}

func smallVM() vmspec.Spec {
	return vmspec.Spec{
		Name: "small", MaximumRAM: 256 * vmspec.MiB, MaximumCPUs: 1, CPUModel: "max",
		Drives: []vmspec.Drive{{Type: vmspec.DriveRaw, File: "/images/a.img"}},
	}
}

func emptyHost() vmtypes.Host {
	return vmtypes.Host{
		DataDir: "/data", RuntimeDir: "/run/vm", Arch: "x86_64",
		Exists: func(string) bool { return false },
	}
}

// errorOf returns the error text for the author of the type mine in files. DIR stands for the type's folder.
func errorOf(t *testing.T, files []txtar.File) string {
	t.Helper()
	dir := folder(t, files)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var options map[string]any
	for _, f := range files {
		if f.Name == "vm.yaml" {
			vm, err := sample.ParseVM(f.Data)
			require.NoError(t, err)
			options = vm.Options
		}
	}
	_, err := launch(ctx, dir, "mine", options)
	require.Error(t, err)
	_, counted := launch(vmtypes.WithCoverage(ctx, &vmtypes.Coverage{}), dir, "mine", options)
	require.EqualError(t, counted, err.Error(), "with coverage")
	return strings.ReplaceAll(err.Error(), dir, "DIR") + "\n"
}

// expected calls each with the path and the content of an archive, and writes the content if the flag update is set.
func expected(t *testing.T, pattern string, each func(t *testing.T, archive *txtar.Archive)) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			require.NoError(t, err)
			each(t, archive)
			if *update {
				require.NoError(t, os.WriteFile(path, txtar.Format(archive), 0o600))
			}
		})
	}
}

// Each archive in testdata/errors contains a type of several files with a mistake, and the error text for its author.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	expected(t, "testdata/errors/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		got := errorOf(t, archive.Files)
		last := &archive.Files[len(archive.Files)-1]
		require.Equal(t, "error", last.Name)
		if *update {
			last.Data = []byte(got)
		}
		require.Equal(t, string(last.Data), got)
	})
}

// excerpt matches the lines of an error with the excerpt from a module.
var excerpt = regexp.MustCompile(`(?m)^ +[0-9]* \| .*\n`)

// Each file of the archives in testdata/errors/one contains a module with a mistake and, below "=>", the error text
// without the excerpt. The test adds a launch function to a module without functions.
func TestErrorTextsOfOneModule(t *testing.T) {
	t.Parallel()
	expected(t, "testdata/errors/one/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		for i, f := range archive.Files {
			module, want, _ := strings.Cut(string(f.Data), "=>\n")
			text := module
			if !strings.Contains(module, "launch") && !strings.Contains(module, "def ") {
				text += "\ndef launch(vm, host):\n    return part()\n"
			}
			got := excerpt.ReplaceAllString(errorOf(t, []txtar.File{{Name: "mine.star", Data: []byte(text)}}), "")
			if *update {
				archive.Files[i].Data, want = []byte(module+"=>\n"+got), got
			}
			require.Equal(t, want, got, f.Name)
		}
	})
}
