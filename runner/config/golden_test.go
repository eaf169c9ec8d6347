package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing")

// TestWhatUsersRead compares the messages about each testdata/*.yaml with the *.txt file next to it.
func TestWhatUsersRead(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			_, warnings, err := Parse(filepath.Base(file), data)

			var faults yamlfile.Faults
			require.True(t, errors.As(err, &faults), "%v", err)
			got := faults.Excerpts()
			for _, warning := range warnings {
				got += "warning: " + warning.String() + "\n"
			}
			require.NotContains(t, got, "secret2")

			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
				return
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "run go test with -update")
			require.Equal(t, string(want), got)
		})
	}
}
