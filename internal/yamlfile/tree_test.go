package yamlfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Any keys are read with their lines. Constructs that a configuration rejects are not accepted as a mapping either.
func TestTree(t *testing.T) {
	t.Parallel()
	values, document, err := Tree("f", []byte("a:\n  b.c: [1, two]\n  d:\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": map[string]any{"b.c": []any{int64(1), "two"}, "d": nil}}, values)
	require.Equal(t, 2, document.Line("a.b.c"))
	require.Equal(t, 3, document.Line("a.d"))
	for text, want := range map[string]string{
		"": "empty", "- a": "must be a mapping", "a: 1\na: 2": "a", "a: [": "f:1",
	} {
		_, _, err := Tree("f", []byte(text))
		require.ErrorContains(t, err, want, text)
	}
}
