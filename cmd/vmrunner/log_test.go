package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"vmop/internal/javalogging"
)

// The file next to the configuration sets the log levels, unless the command line does.
func TestLoggingPropertiesBesideTheConfiguration(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		text string
		args []string
		want slog.Level
	}{
		{"", nil, slog.LevelInfo},
		{".level=WARNING", nil, slog.LevelWarn},
		{".level=WARNING\norg.jdrupes.vmoperator.runner.qemu.level=FINE", nil, slog.LevelDebug},
		{".level=FINE", []string{"--log-level", "error"}, slog.LevelError},
	} {
		dir := t.TempDir()
		if row.text != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, javalogging.File), []byte(row.text), 0o600))
		}
		f := flags{config: filepath.Join(dir, "config.yaml")}
		var cmd cobra.Command
		f.log.Add(&cmd)
		require.NoError(t, cmd.ParseFlags(row.args))
		log, err := f.runnerLog(&cmd)
		require.NoError(t, err)
		require.True(t, log.Enabled(t.Context(), row.want), row.text)
		require.False(t, log.Enabled(t.Context(), row.want-1), row.text)
	}
}
