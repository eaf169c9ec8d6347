package vmtypes_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
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

// Each archive in testdata/errors is a type with a mistake and the text its
// author gets to read.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/errors/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			require.NoError(t, err)
			dir := folder(t, archive.Files)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var options map[string]any
			for _, f := range archive.Files {
				if f.Name == "vm.yaml" {
					vm, err := sample.ParseVM(f.Data)
					require.NoError(t, err)
					options = vm.Options
				}
			}
			_, err = launch(ctx, dir, "mine", options)
			require.Error(t, err)
			got := strings.ReplaceAll(err.Error(), dir, "DIR") + "\n"
			last := &archive.Files[len(archive.Files)-1]
			require.Equal(t, "error", last.Name)
			if *update {
				last.Data = []byte(got)
				require.NoError(t, os.WriteFile(path, txtar.Format(archive), 0o600))
			}
			require.Equal(t, string(last.Data), got)
		})
	}
}
