package qmp_test

import (
	"slices"
	"testing"
	"time"

	goqemu "github.com/digitalocean/go-qemu/qmp"
	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/test/wait"
)

// BenchmarkRoundTrip runs query-status on a session and on go-qemu's own client,
// in turns on the same QEMU. QEMU reads its monitor byte by byte, so that most of
// a command's time goes by its length: both send the same number of bytes. It reports the median round's microseconds
// of each and the ratio (below 1: the session is faster).
func BenchmarkRoundTrip(b *testing.B) {
	q, s := startQEMU(b)
	other, err := goqemu.NewSocketMonitor("unix", q.other, wait.Longest)
	require.NoError(b, err)
	require.NoError(b, other.Connect())
	defer other.Disconnect()
	ctx := timeout(b)

	const each = 200
	var ours, theirs []float64
	for b.Loop() {
		start := time.Now()
		for range each {
			if _, err := s.Run(ctx, qmp.Command{Execute: "query-status"}); err != nil {
				b.Fatal(err)
			}
		}
		ours = append(ours, float64(time.Since(start).Nanoseconds())/1000/each)
		start = time.Now()
		for range each {
			if _, err := other.Run([]byte(`{"execute":"query-status","id":"12"}` + "\n")); err != nil {
				b.Fatal(err)
			}
		}
		theirs = append(theirs, float64(time.Since(start).Nanoseconds())/1000/each)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	median, median2 := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(median, "µs/session")
	b.ReportMetric(median2, "µs/go-qemu")
	b.ReportMetric(median/median2, "ratio")
}

// BenchmarkParallel is what go-qemu's client cannot do: commands of many
// goroutines under way at once.
func BenchmarkParallel(b *testing.B) {
	_, s := startQEMU(b)
	ctx := timeout(b)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Run(ctx, qmp.Command{Execute: "query-status"}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
