package childprocess

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// FuzzOutput feeds any bytes in two pieces. The log is bounded and safe for a terminal, and the tail is the end of the
// output.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n"), []byte("three"))
	f.Add([]byte("\x1b[31m\xff\xe2\x80"), []byte("\xae\n\x00"))
	f.Add(bytes.Repeat([]byte("ä"), 2047), bytes.Repeat([]byte("€"), 3000))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var log bytes.Buffer
		s := newStream("stderr", slog.New(slog.NewTextHandler(&log, nil)), TailSize)
		for _, data := range [][]byte{first, second} {
			s.feedLines(data)
			require.Less(t, len(s.line), maxLine)
		}
		s.flushLine()
		require.Negative(t, strings.IndexFunc(log.String(), func(r rune) bool {
			return !unicode.IsPrint(r) && r != '\n' && r != unicode.ReplacementChar
		}))
		all := append(bytes.Clone(first), second...)
		kept := all[max(0, len(all)-TailSize):]
		require.True(t, bytes.Equal(kept, s.tail.data))
		require.NotContains(t, s.tail.tailText(), "\x1b")
		require.True(t, len(all) > TailSize || !s.tail.cut)
		require.Equal(t, strings.ToValidUTF8(s.tail.tailText(), "!"), s.tail.tailText())
	})
}
