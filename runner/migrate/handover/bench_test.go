package handover

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/wait"
)

// await returns the host's time of a QEMU event.
func (m *machine) await(event string) time.Time {
	m.t.Helper()
	ctx, cancel := wait.Context(m.t.Context())
	defer cancel()
	for {
		select {
		case e := <-m.events:
			if e.Name == event {
				return e.Time
			}
		case <-ctx.Done():
			require.FailNow(m.t, "no "+event)
		}
	}
}

// BenchmarkCopy measures the copy speed of a disk without holes.
func BenchmarkCopy(b *testing.B) {
	const size = 1 << 30
	from := filepath.Join(b.TempDir(), "disk")
	text := make([]byte, size)
	_, err := rand.NewChaCha8([32]byte{}).Read(text)
	require.NoError(b, err)
	copy(text, guest.Counter(false))
	require.NoError(b, os.WriteFile(from, text, 0o600))
	b.SetBytes(size)
	for b.Loop() {
		r := newTrialOf(b, from)
		r.toDisk = filepath.Join(b.TempDir(), "disk")
		r.images = []Image{NewFile("a", "r", r.toDisk, "raw", size)}
		target, _ := r.asTarget()
		require.NoError(b, get(b, r.asSource().ended))
		require.NoError(b, get(b, target.Decided()))
		r.from.kill()
		r.to.kill()
		require.NoError(b, os.Remove(r.toDisk))
	}
}
