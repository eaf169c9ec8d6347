package chart_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"vmop/test/cluster"
	"vmop/test/pages"
	"vmop/test/program"
)

// typesDocuments types the commands of the pages for administrators, from top to bottom, in a copy of the files that
// they use and a cluster without nodes. testdata/walks.yaml lists the pages and explains the exceptions.
func typesDocuments(t *testing.T, run runner) {
	var walks struct {
		Walks []pages.Walk `json:"walks"`
	}
	text, err := os.ReadFile("testdata/walks.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &walks))
	for _, w := range walks.Walks {
		t.Run(strings.TrimSuffix(filepath.Base(w.Page), ".md"), func(t *testing.T) {
			t.Parallel()
			shell := administrator(t, run)
			source, err := os.ReadFile(filepath.Join("../../docs", w.Page))
			require.NoError(t, err)
			output(t, shell(w.Before))
			for _, b := range pages.Read("docs/"+w.Page, source).Blocks {
				if b.Language != pages.Shell {
					continue
				}
				commands, err := b.Statements()
				require.NoError(t, err)
				for _, command := range commands {
					t.Log(command)
					output(t, shell(w.Script(command)))
				}
			}
			require.Empty(t, w.Faults())
		})
	}
}

// administrator starts a cluster, and returns the shell of its administrator in the copy of a clone.
func administrator(t *testing.T, run runner) func(script string) *exec.Cmd {
	t.Helper()
	c, err := cluster.Up(t.Context(), cluster.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Down(context.WithoutCancel(t.Context()))) })
	const project = "../.."
	home, clone := t.TempDir(), t.TempDir()
	for _, folder := range []string{"deploy", "examples", "tools/scripts"} {
		require.NoError(t, program.LookInto(filepath.Join(project, folder)))
		require.NoError(t, os.CopyFS(filepath.Join(clone, folder), os.DirFS(filepath.Join(project, folder))))
	}
	makefile, err := os.ReadFile(filepath.Join(project, "Makefile"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(clone, "Makefile"), makefile, 0o600))
	for _, name := range []string{"kubectl-vmop", "vmmanager"} {
		require.NoError(t, program.Build(t.Context(), filepath.Join(home, name), "vmop/cmd/"+name))
	}
	require.NoError(t, os.Symlink(run().Path, filepath.Join(home, "helm")))
	return func(script string) *exec.Cmd {
		cmd := c.Inside(t.Context(), "sh", "-ec", script)
		cmd.Dir = clone
		cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG="+c.Kubeconfig, "PATH="+home+":"+
			filepath.Join(c.Programs, "bin")+":"+os.Getenv("PATH"))
		return cmd
	}
}
