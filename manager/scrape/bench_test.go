package scrape

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const fleet = 5000

func names() (all []string) {
	for i := range fleet {
		all = append(all, fmt.Sprintf("vm-%04d", i))
	}
	return all
}

// counting counts bytes of an answer.
type counting struct {
	head http.Header
	size int
}

func (c *counting) Header() http.Header         { return c.head }
func (c *counting) WriteHeader(int)             {}
func (c *counting) Write(p []byte) (int, error) { c.size += len(p); return len(p), nil }

func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// peak returns by how much the heap is greater at most while do is done, garbage included.
func peak(do func()) uint64 {
	runtime.GC()
	before, most := heap(), uint64(0)
	done, sampled := make(chan struct{}), sync.WaitGroup{}
	sampled.Go(func() {
		for {
			most = max(most, heap()-min(before, heap()))
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	do()
	close(done)
	sampled.Wait()
	return most
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure has 5000 VMs scraped, packed as Prometheus asks for it.
func measure(b *testing.B, runner func(vm string) (Runner, error)) {
	b.Helper()
	all, most, size := names(), uint64(0), 0
	began := cpu()
	for b.Loop() {
		s, w := of(all, runner), &counting{head: http.Header{}}
		s.patience, s.longest = time.Hour, time.Hour
		r := httptest.NewRequest("GET", "/metrics/vms", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "1000") // whatever else this computer does
		most = max(most, peak(func() { s.ServeHTTP(w, r) }))
		size = w.size
		require.Len(b, s.last.ends, fleet)
		for _, end := range s.last.ends {
			require.Equal(b, answered, end)
		}
	}
	b.ReportMetric(float64((cpu()-began).Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(most)/1e6, "peak-MB")
	b.ReportMetric(float64(size)/1e6, "sent-MB")
}

// BenchmarkScrape is a scrape of 5000 VMs without the connections: answers are read, sorted, packed.
func BenchmarkScrape(b *testing.B) {
	answer := fixed(genuine(b))
	b.ReportMetric(float64(len(answer)), "answer-B")
	measure(b, func(string) (Runner, error) { return answer, nil })
}

// BenchmarkScrapeByTLS is one with them, and with the runners in this process: both sides of 5000 handshakes.
func BenchmarkScrapeByTLS(b *testing.B) {
	keys, targets := runners(b, 8)
	next := make(chan int, 1)
	next <- 0
	measure(b, func(string) (Runner, error) {
		i := <-next
		next <- i + 1
		return keys.Bounded(targets[i%len(targets)], MostBytes), nil
	})
}

// BenchmarkWrite is what another request costs that shares the answer.
func BenchmarkWrite(b *testing.B) {
	answer := fixed(genuine(b))
	s := of(names(), func(string) (Runner, error) { return answer, nil })
	get(s)
	text := &counting{}
	for b.Loop() {
		text.size = 0
		require.NoError(b, s.last.write(text))
	}
	b.ReportMetric(float64(text.size)/1e6, "text-MB")
}
