package guest

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// endless is a guest's endless output.
type endless byte

// Read implements io.Reader.
func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// A reader keeps at most the largest reply of a 100 MB flood.
func TestAFloodIsNotKept(t *testing.T) {
	t.Parallel()
	flood := func() *reader {
		return newReader(io.MultiReader(io.LimitReader(endless('x'), 100<<20), bytes.NewReader([]byte{sentinel, '{'})))
	}
	r := flood()
	_, err := r.readLine()
	require.EqualError(t, err, "the reply has more than 1048576 bytes")
	kept, err := r.skipToSentinel(true)
	require.NoError(t, err)
	require.Len(t, kept, maxReply)
	require.LessOrEqual(t, cap(kept), 2*maxReply)
	next, err := r.r.ReadByte()
	require.NoError(t, err)
	require.Equal(t, byte('{'), next)

	kept, err = flood().skipToSentinel(false)
	require.NoError(t, err)
	require.Empty(t, kept)
}
