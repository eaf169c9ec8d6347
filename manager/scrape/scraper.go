package scrape

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"vmop/runner/control"
)

// Bounds of a round of requests to runners.
const (
	// MostBytes is what an answer of a runner may have: that of a VM with 20 disks and 10 interfaces has a quarter.
	MostBytes = 64 << 10

	concurrent = 128
	patience   = 2 * time.Second  // for one runner
	usual      = 10 * time.Second // Prometheus waits, unless it says otherwise
	longest    = 30 * time.Second
	shareTime  = 5 * time.Second // who asks so shortly after another gets the same
)

// A Runner is asked for metrics. What it writes is bounded: see MostBytes.
type Runner interface {
	Metrics(ctx context.Context, w io.Writer) error
}

// Options are what a Scraper needs. All are required.
type Options struct {
	// Namespace of the VMs.
	Namespace string
	// VMs returns the names of all VMs: none if another manager is to be asked.
	VMs func() []string
	// Runner returns the runner of a VM; nil if the VM has none, or it can't be reached yet.
	Runner func(vm string) (Runner, error)
	// Log takes which runners don't answer, and why.
	Log *slog.Logger
}

// A Scraper is a handler of requests for the metrics of all VMs.
type Scraper struct {
	opts              Options
	patience, longest time.Duration

	mu   sync.Mutex
	last *round          // nil: there was none for some time
	lost map[string]bool // VMs whose runners have not answered in the last one
}

// round is runners that are asked.
type round struct {
	*answers
	done chan struct{}
}

// New returns a scraper.
func New(opts Options) *Scraper { return &Scraper{opts: opts, patience: patience, longest: longest} }

// ServeHTTP implements http.Handler.
func (s *Scraper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := s.join(r)
	select {
	case <-asked.done:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_ = asked.write(w) // the client may have disconnected
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
	_ = asked.write(packed)
	_ = packed.Close()
}

// join returns the round that a request has part in. It continues when the client that began it has gone.
func (s *Scraper) join(r *http.Request) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return s.last
	}
	families := families()
	next := &round{done: make(chan struct{}), answers: &answers{
		namespace: s.opts.Namespace, families: families, kept: make([]blocks, len(families)),
	}}
	s.last = next
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.limit(r))
		defer cancel()
		lost := s.queryAll(ctx, next.answers)
		s.mu.Lock()
		s.lost = lost
		s.mu.Unlock()
		close(next.done)
		time.AfterFunc(shareTime, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.last = nil
		})
	}()
	return next
}

// limit is how long runners are asked: less than Prometheus waits, since the answer is to be sent.
func (s *Scraper) limit(r *http.Request) time.Duration {
	seconds, err := strconv.ParseFloat(r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || !(seconds > 0) {
		seconds = usual.Seconds()
	}
	return time.Duration(min(seconds, s.longest.Seconds()) * 0.8 * float64(time.Second))
}

// queryAll asks the runners of all VMs, and returns those that have not answered.
func (s *Scraper) queryAll(ctx context.Context, a *answers) (lost map[string]bool) {
	vms, last := s.opts.VMs(), []string(nil)
	for _, vm := range vms {
		if s.lost[vm] {
			last = append(last, vm)
		}
	}
	a.vms = append(slices.DeleteFunc(vms, func(vm string) bool { return s.lost[vm] }), last...)
	a.ends = make([]end, len(a.vms))
	next, asking := make(chan int), sync.WaitGroup{}
	for range min(concurrent, len(a.vms)) {
		asking.Go(func() {
			r, answer := newReader(a.families), bytes.Buffer{}
			for vm := range next {
				answer.Reset()
				a.ends[vm] = s.query(ctx, a, vm, r, &answer)
			}
		})
	}
	for vm := range a.vms {
		next <- vm
	}
	close(next)
	asking.Wait()
	lost = map[string]bool{}
	for vm, end := range a.ends {
		if end == silent {
			lost[a.vms[vm]] = true
		}
	}
	return lost
}

// query asks the runner of a VM.
func (s *Scraper) query(ctx context.Context, a *answers, vm int, r *reader, answer *bytes.Buffer) end {
	runner, err := s.opts.Runner(a.vms[vm])
	switch {
	case runner == nil && err == nil:
		return noRunner
	case ctx.Err() != nil:
		return unasked
	case err == nil:
		ctx, cancel := context.WithTimeout(ctx, s.patience)
		defer cancel()
		err = runner.Metrics(ctx, answer)
	}
	if err == nil {
		err = r.read(answer.Bytes())
	}
	if err != nil {
		s.opts.Log.Debug("no metrics of a VM", "vm", a.vms[vm], "err", err)
		return silent
	}
	a.add(vm, r)
	return answered
}

var _ Runner = (*control.Client)(nil)
