package lsp

import (
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

func TestPositionsCountUTF16(t *testing.T) {
	t.Parallel()
	d := newText("a = \"ä😀b\"\r\nx\rlast\n")
	require.Len(t, d.starts, 4)
	require.Equal(t, position{0, 9}, d.positionOf(len("a = \"ä😀b")))
	require.Equal(t, len("a = \"ä😀"), d.offsetOf(position{0, 8}))
	require.Equal(t, len("a = \"ä😀"), d.offsetOf(position{0, 7}), "within a pair")
	require.Equal(t, position{0, 6}, d.columnPosition(1, 7), "Starlark counts code points")
	require.Equal(t, position{0, 8}, d.columnPosition(1, 8))
	require.Equal(t, "x", d.lineText(1))
	require.Equal(t, len(d.content), d.offsetOf(position{9, 9}))
	require.Equal(t, 0, d.offsetOf(position{-1, 5}))
	require.Equal(t, len("a = \"ä😀b\""), d.offsetOf(position{0, 99}), "not beyond the line")
}

func TestChangesFollowEachOther(t *testing.T) {
	t.Parallel()
	d := newText("one\ntwo\n").applyChanges([]contentChange{
		{Range: &span{position{0, 0}, position{0, 3}}, Text: "😀"},
		{Range: &span{position{0, 2}, position{1, 0}}, Text: "-"},
	})
	require.Equal(t, "😀-two\n", d.content)
	require.Equal(t, "new", d.applyChanges([]contentChange{{Text: "new"}}).content)
	require.Equal(t, "😀-two\nx",
		d.applyChanges([]contentChange{{Range: &span{position{7, 0}, position{3, 0}}, Text: "x"}}).content)
}

// FuzzText checks that every byte position leads back to the same byte, and that changes never panic.
func FuzzText(f *testing.F) {
	f.Add("a = \"ä😀b\"\r\nx\rlast\n", 0, 3, 1, 2, "z\n")
	f.Add("\xff\xfe\n\r", -1, 1<<40, 0, 0, "")
	f.Fuzz(func(t *testing.T, content string, line, character, toLine, toCharacter int, insert string) {
		d := newText(content)
		for i := range content {
			p := d.positionOf(i)
			require.LessOrEqual(t, d.offsetOf(p), i)
			if content[i] != '\n' && content[i] != '\r' {
				require.Equal(t, i, d.offsetOf(p))
			}
		}
		require.Equal(t, len(utf16.Encode([]rune(d.lineText(0)))), unitsIn(d.lineText(0)))
		d.columnPosition(line, character)
		change := contentChange{Range: &span{position{line, character}, position{toLine, toCharacter}}, Text: insert}
		require.Contains(t, d.applyChanges([]contentChange{change}).content, insert)
	})
}
