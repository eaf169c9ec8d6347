package link

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkCarry carries 256 MiB between two programs.
func BenchmarkCarry(b *testing.B) {
	target, keys, err := NewKeys("127.0.0.1:0", time.Now())
	require.NoError(b, err)
	l, err := Listen(b.Context(), target, slog.New(slog.DiscardHandler))
	require.NoError(b, err)
	defer l.Close()
	keys.Address = l.Address()
	atSource, err := Dial(b.Context(), keys, "memory")
	require.NoError(b, err)
	atTarget := <-l.Accepted()
	ours, theirs, err := Pair()
	require.NoError(b, err)
	far, farTheirs, err := Pair()
	require.NoError(b, err)
	defer farTheirs.Close()
	defer theirs.Close()
	go func() { _ = Carry(b.Context(), atSource, ours) }()
	go func() { _ = Carry(b.Context(), atTarget, far) }()
	const size = 256 << 20
	b.SetBytes(size)
	buffer := make([]byte, 1<<20)
	for b.Loop() {
		go func() {
			text := make([]byte, 128<<10) // like QEMU
			for range size / len(text) {
				_, _ = theirs.Write(text)
			}
		}()
		for left := size; left > 0; {
			n, err := farTheirs.Read(buffer[:min(left, 128<<10)])
			require.NoError(b, err)
			left -= n
		}
	}
}
