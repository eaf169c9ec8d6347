package logging

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const unset = slog.Level(-1000)
	for _, row := range []struct {
		text     string
		want     slog.Level
		warnings string
	}{
		{"", unset, ""},
		{".level=WARNING", slog.LevelWarn, ""},
		{"# a\n! b\n\n.level : OFF\nb.level FINE", slog.LevelDebug, ""},
		{"a.level=\\\n  SEVERE\nb.level = ALL\n", slog.LevelError, ""},
		{".level=FINER\njava.util.logging.ConsoleHandler.level=INFO", slog.LevelInfo, ""},
		{".level=1001", Off, ""},
		{".level=900", slog.LevelWarn, ""},
		{"handlers=java.util.logging.ConsoleHandler\njava.util.logging.SimpleFormatter.format=%1$tb", unset, ""},
		{"\n.level=DEBUG", unset, `f:2: .level: "DEBUG" is no level (it is called FINE here)`},
		{".level=FINNE", unset, `f:1: .level: "FINNE" is no level (did you mean FINE?)`},
		{
			"c.level=FINE\na.level=INFO", slog.LevelInfo,
			`f:1: nothing here corresponds to the logger "c" (there are a, b)`,
		},
		{"levle=FINE", unset, `f:1: "levle" is none that is known here (known are levels, such as a.level)`},
	} {
		levels, warnings := Parse("f", row.text, "a", "b")
		got := unset
		if level := levels.Of("a", "b", ""); level != nil {
			got = *level
		}
		require.Equal(t, row.want, got, row.text)
		require.Equal(t, row.warnings, strings.Join(warnings, "\n"), row.text)
	}
}
