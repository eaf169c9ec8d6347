package javalogging

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
		{".level=1001", off, ""},
		{".level=1000", slog.LevelError, ""},
		{".level=901", slog.LevelError, ""},
		{".level=900", slog.LevelWarn, ""},
		{".level=800", slog.LevelInfo, ""},
		{".level=500", slog.LevelDebug, ""},
		{".level=400", slog.LevelDebug - 4, ""},
		{"b.level=OFF\na.level=INFO", slog.LevelInfo, ""},
		{
			".level=", unset, `f:1: .level: "" is not a level (levels are OFF, SEVERE, WARNING, INFO, CONFIG, FINE, ` +
				`FINER, FINEST, ALL)`,
		},
		{".level=ERROR", unset, `f:1: .level: "ERROR" is not a level (it is called SEVERE here)`},
		{"level", unset, `f:1: "level" is unknown here (known are levels, such as a.level)`},
		{"handlers.level=INFO", unset, `f:1: no logger here corresponds to "handlers" (there are a, b)`},
		{"handlers=java.util.logging.ConsoleHandler\njava.util.logging.SimpleFormatter.format=%1$tb", unset, ""},
		{"\n.level=DEBUG", unset, `f:2: .level: "DEBUG" is not a level (it is called FINE here)`},
		{".level=FINNE", unset, `f:1: .level: "FINNE" is not a level (did you mean FINE?)`},
		{
			"c.level=FINE\na.level=INFO", slog.LevelInfo,
			`f:1: no logger here corresponds to "c" (there are a, b)`,
		},
		{"levle=FINE", unset, `f:1: "levle" is unknown here (known are levels, such as a.level)`},
	} {
		levels, warnings := Parse("f", row.text, "a", "b")
		got := unset
		if level := levels.Of("a", "b", ""); level != nil {
			got = *level
		}
		require.Equal(t, row.want, got, row.text)
		require.Equal(t, row.warnings, strings.Join(warnings, "\n"), row.text)
		for _, p := range Check(row.text, "a", "b") {
			require.Equal(t, strings.Contains(p.Message, "no logger here corresponds"), p.Foreign)
		}
	}
}
