package manager

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/logging"
)

func TestLoggingProperties(t *testing.T) {
	t.Parallel()
	const unset = slog.Level(-1000)
	for _, row := range []struct {
		text               string
		manager, libraries slog.Level
		warnings           string
	}{
		{"", unset, unset, ""},
		{".level=WARNING", slog.LevelWarn, slog.LevelWarn, ""},
		{"# a\n! b\n\n.level : OFF\norg.jdrupes.vmoperator.level FINE", slog.LevelDebug, logging.Off, ""},
		{"org.jdrupes.vmoperator.manager.level = SEVERE\norg.jdrupes.vmoperator.level = ALL\n", slog.LevelError, unset, ""},
		{"io.kubernetes.level=\\\n  CONFIG", unset, slog.LevelInfo, ""},
		{".level=ALL\njava.util.logging.ConsoleHandler.level=INFO", slog.LevelInfo, slog.LevelInfo, ""},
		{".level=900\nio.kubernetes.level=1001", slog.LevelWarn, logging.Off, ""},
		{"handlers=java.util.logging.ConsoleHandler\njava.util.logging.SimpleFormatter.format=%1$tb", unset, unset, ""},
		{"\n.level=DEBUG", unset, unset, `f:2: .level: "DEBUG" is no level (it is called FINE here)`},
		{".level=FINNE", unset, unset, `f:1: .level: "FINNE" is no level (did you mean FINE?)`},
		{"org.jgrapes.level=FINE", unset, unset, `f:1: nothing here corresponds to the logger "org.jgrapes" (there are org.jdrupes.vmoperator.manager, org.jdrupes.vmoperator, io.kubernetes)`},
		{"levle=FINE", unset, unset, `f:1: "levle" is none that is known here (known are levels, such as org.jdrupes.vmoperator.manager.level)`},
	} {
		got, warnings := parseLogging("f", row.text)
		require.Equal(t, row.manager, or(got.manager, unset), row.text)
		require.Equal(t, row.libraries, or(got.libraries, unset), row.text)
		require.Equal(t, row.warnings, strings.Join(warnings, "\n"), row.text)
	}
}

// A file sets levels, its absence takes that back, and a level of the command line
// stands.
func TestLevelsFollowTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, properties := filepath.Join(dir, "config.yaml"), filepath.Join(dir, logging.File)
	write := func(text string) { require.NoError(t, os.WriteFile(properties, []byte(text), 0o600)) }
	var levels, fixed Levels
	fixed.Fixed = true
	read := func() {
		for _, l := range []*Levels{&levels, &fixed} {
			_, err := l.read(config)
			require.NoError(t, err)
		}
	}
	write("org.jdrupes.vmoperator.manager.level=FINE")
	read()
	require.Equal(t, slog.LevelDebug, levels.Manager.Level())
	require.Equal(t, slog.LevelWarn, levels.Libraries.Level())
	require.NoError(t, os.Remove(properties))
	read()
	require.Equal(t, slog.LevelInfo, levels.Manager.Level())
	write(".level=OFF")
	read()
	require.Equal(t, logging.Off, levels.Manager.Level())
	require.Zero(t, fixed.Manager.Level())
}
