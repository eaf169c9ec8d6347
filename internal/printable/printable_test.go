package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestHostileText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, line string }{
		{"plain", "Grüße, 世界 🙂", "Grüße, 世界 🙂"},
		{"a combining mark", "e\u0301", "e\u0301"},
		{"NUL and DEL", "a\x00b\x7f", "a�b�"},
		{"C1 control", "a\u009b31m", "a�31m"},
		{"ANSI colour", "\x1b[31mred\x1b[0m", "�[31mred�[0m"},
		{"terminal title", "\x1b]0;root\x07", "�]0;root�"},
		{"carriage return", "real\rfake", "real�fake"},
		{"backspace", "real\b\b\b\bfake", "real����fake"},
		{"bidi override", "user\u202etxt.exe", "user�txt.exe"},
		{"bidi isolate", "\u2066a\u2069", "�a�"},
		{"zero width", "a\u200bb\ufeffc", "a�b�c"},
		{"line and paragraph separators", "a\u2028b\u2029c\u0085d", "a�b�c�d"},
		{"a blank that does not break", "a\u00a0b", "a�b"},
		{"private use", "\ue000", "�"},
		{"not UTF-8", "a\xffb\xc3", "a�b�"},
		{"a surrogate in UTF-8", "\xed\xa0\x80", "���"},
		{"line breaks and tabs", "a\n\tb", "a  b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.line, Line(tt.text))
			if tt.name != "line breaks and tabs" {
				require.Equal(t, tt.line, Text(tt.text))
			}
		})
	}
	require.Equal(t, "a\n\tb\n", Text("a\n\tb\n"))
}

func TestClip(t *testing.T) {
	t.Parallel()
	require.Equal(t, "", Clip("", 1))
	require.Equal(t, "äöü", Clip("äöü", 3))
	require.Equal(t, "ä…", Clip("äöü", 2))
	require.Equal(t, "…", Clip("äöü", 1))
	require.Equal(t, "\xff…", Clip("\xff\xff\xff", 2))
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[1m\xff\u202e\n", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(1, min(most, 1000))
		line := Line(text)
		require.True(t, utf8.ValidString(line))
		require.Equal(t, -1, strings.IndexFunc(line, func(r rune) bool {
			return r != utf8.RuneError && !unicode.IsPrint(r)
		}))
		require.Equal(t, utf8.RuneCountInString(text), utf8.RuneCountInString(line))
		require.Equal(t, line, Line(line))
		require.LessOrEqual(t, utf8.RuneCountInString(Clip(text, most)), most)
		require.Equal(t, Line(Clip(text, most)), Clip(Line(text), most))
	})
}
