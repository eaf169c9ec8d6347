package handover

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
)

// await returns when QEMU says that something has happened, by the host's clock.
func (m *machine) await(event string) time.Time {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	for {
		select {
		case e := <-m.session.Events():
			if e.Name == event {
				return e.Time
			}
		case <-ctx.Done():
			require.FailNow(m.t, "no "+event)
		}
	}
}

// BenchmarkDowntime measures for how long an idle guest is paused that moves, from QEMU's STOP to its RESUME.
func BenchmarkDowntime(b *testing.B) {
	for _, kind := range []string{"shared", "local"} {
		b.Run(kind, func(b *testing.B) {
			var pauses []time.Duration
			for b.Loop() {
				r := newTrial(b, false)
				if kind == "local" {
					r.toDisk = filepath.Join(b.TempDir(), "disk")
					r.images = []Image{NewFile("a", "r", r.toDisk, "raw", 1<<20)}
				}
				target, _ := r.asTarget()
				require.NoError(b, get(b, r.asSource().ended))
				require.NoError(b, get(b, target.Decided()))
				pauses = append(pauses, r.to.await("RESUME").Sub(r.from.await("STOP")))
				r.from.kill()
				r.to.kill()
			}
			slices.Sort(pauses)
			b.ReportMetric(float64(pauses[len(pauses)/2].Microseconds())/1000, "median-ms")
			b.ReportMetric(float64(pauses[len(pauses)*95/100].Microseconds())/1000, "p95-ms")
		})
	}
}

// BenchmarkCopy measures how fast a disk is copied that has something everywhere.
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
