package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A copied program can be executed immediately, even while other processes are started.
func TestACopyIsExecutedAtOnce(t *testing.T) {
	made, to := t.TempDir(), t.TempDir()
	truth, err := exec.LookPath("true")
	require.NoError(t, err)
	text, err := os.ReadFile(truth)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(made, "true"), text, 0o755))
	t.Setenv(Folder, made)
	done := make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.CommandContext(t.Context(), truth).Run()
				}
			}
		})
	}
	for range 100 {
		file := filepath.Join(to, "program")
		require.NoError(t, Build(t.Context(), file, "vmop/cmd/true"))
		require.NoError(t, exec.CommandContext(t.Context(), file).Run())
		require.NoError(t, os.Remove(file))
	}
	close(done)
	others.Wait()
}
