package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchDisk is the size of the disk that is read and written, in bytes.
const benchDisk = 512 << 20

// BenchmarkServe compares an attached disk with a VM's own disk: it reads and writes the disk with QEMU's client
// through the server, and the same file directly, in turns. The client is qemu-io. The time that it needs with a null
// disk is subtracted.
func BenchmarkServe(b *testing.B) {
	args := servable(b)
	disk, dir, port := args[2], args[4], args[8]
	timed(b, "dd", "if=/dev/urandom", "of="+disk, "bs=1M", "count="+strconv.Itoa(benchDisk>>20), "conv=fsync")
	serve := start(b, nil, args...)
	serve.says(b, "serving the disk")
	b.Cleanup(func() { serve.terminate(b) })
	served := []string{
		"--object", "tls-creds-x509,id=tls,endpoint=client,verify-peer=on,dir=" + dir, "--image-opts",
		"driver=nbd,server.type=inet,server.host=127.0.0.1,export=disk,tls-creds=tls,server.port=" + port,
	}
	direct := []string{"--image-opts", "driver=raw,cache.direct=on,file.cache.direct=on,file.driver=file,file.aio=native," +
		"file.filename=" + disk}
	for _, c := range []struct {
		operation   string
		size, depth int
	}{{"read", 64 << 10, 16}, {"write", 64 << 10, 16}, {"read", 1 << 20, 4}, {"write", 1 << 20, 4}} {
		b.Run(fmt.Sprintf("%s-%dKiB-%d-at-once", c.operation, c.size>>10, c.depth), func(b *testing.B) {
			script := sequential(c.operation, c.size, c.depth)
			own, _ := qemuIO(b, script, "--image-opts", "driver=null-co,read-zeroes=off,size="+strconv.Itoa(benchDisk))
			var theirs, ours time.Duration
			for b.Loop() {
				took, _ := qemuIO(b, script, direct...)
				theirs += took - own
				took, _ = qemuIO(b, script, served...)
				ours += took - own
			}
			b.ReportMetric(float64(b.N)*(benchDisk>>20)/ours.Seconds(), "MiB/s")
			b.ReportMetric(theirs.Seconds()/ours.Seconds(), "x-of-direct")
		})
	}
	for _, operation := range []string{"read", "write"} {
		b.Run(operation+"-4KiB-random", func(b *testing.B) {
			script := random(operation)
			var theirs, ours []float64
			for b.Loop() {
				_, out := qemuIO(b, script, direct...)
				theirs = append(theirs, latencies(b, out)...)
				_, out = qemuIO(b, script, served...)
				ours = append(ours, latencies(b, out)...)
			}
			slices.Sort(theirs)
			slices.Sort(ours)
			b.ReportMetric(ours[len(ours)/2], "µs-median")
			b.ReportMetric(ours[len(ours)/2]/theirs[len(theirs)/2], "x-of-direct")
			b.ReportMetric(ours[len(ours)*99/100]/theirs[len(theirs)*99/100], "x-of-direct-p99")
		})
	}
}

// sequential returns commands of qemu-io that access the whole disk once, with several requests at the same time.
func sequential(operation string, size, depth int) string {
	var s strings.Builder
	for i := range benchDisk / size {
		fmt.Fprintf(&s, "aio_%s -q %d %d\n", operation, i*size, size)
		if i%depth == depth-1 {
			s.WriteString("aio_flush\n")
		}
	}
	return s.String()
}

// random returns commands of qemu-io for blocks of 4 KiB, one after the other.
func random(operation string) string {
	var s strings.Builder
	source := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		fmt.Fprintf(&s, "%s %d 4096\n", operation, source.IntN(benchDisk>>12)<<12)
	}
	return s.String()
}

// qemuIO runs commands of qemu-io, and returns the time and the output.
func qemuIO(b *testing.B, script string, args ...string) (time.Duration, string) {
	cmd := exec.CommandContext(b.Context(), "qemu-io", args...)
	cmd.Stdin = strings.NewReader(script)
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(begin)
	require.NoError(b, err, "%s", out)
	require.NotRegexp(b, "rror|fail", string(out))
	return took, string(out)
}

// latencies returns the latencies of sequential requests, in microseconds.
func latencies(b *testing.B, out string) (all []float64) {
	for _, found := range regexp.MustCompile(`and ([0-9.]+) ops/sec`).FindAllStringSubmatch(out, -1) {
		rate, err := strconv.ParseFloat(found[1], 64)
		require.NoError(b, err)
		all = append(all, 1e6/rate)
	}
	require.Len(b, all, 2000)
	return all
}
