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

// Limits of a round of requests to runners.
const (
	// MostBytes limits a runner's answer. The answer of a VM with 20 disks and 10 interfaces has a quarter of this
	// size.
	MostBytes = 64 << 10

	concurrent = 128
	patience   = 2 * time.Second  // per runner
	usual      = 10 * time.Second // Prometheus's default timeout
	longest    = 30 * time.Second
	shareTime  = 5 * time.Second // later requests within this time share the answer
)

// Runner returns the metrics of a VM. Its output must be limited: see MostBytes.
type Runner interface {
	Metrics(ctx context.Context, w io.Writer) error
}

// Options contains what a Scraper needs. All fields are required.
type Options struct {
	// Namespace of the VMs.
	Namespace string
	// VMs returns the names of all VMs, or an empty list if another manager must be queried.
	VMs func() []string
	// Runner returns the runner of a VM, or nil if the VM has no runner. It returns an error if the runner can't be
	// reached yet.
	Runner func(vm string) (Runner, error)
	// Log receives which runners don't answer, and why.
	Log *slog.Logger
}

// Scraper is an http.Handler for the metrics of all VMs.
type Scraper struct {
	opts              Options
	patience, longest time.Duration

	mu   sync.Mutex
	last *round          // nil if no recent round exists
	lost map[string]bool // VMs without an answer in the last round
}

// round is a concurrent query of all runners.
type round struct {
	*answers
	done chan struct{}
}

// New returns a Scraper.
func New(opts Options) *Scraper { return &Scraper{opts: opts, patience: patience, longest: longest} }

// ServeHTTP implements http.Handler.
func (s *Scraper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := s.joinRound(r)
	select {
	case <-asked.done:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_ = asked.writeMetrics(w) // the client may have disconnected
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	packed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
	_ = asked.writeMetrics(packed)
	_ = packed.Close()
}

// joinRound returns the round for a request. The round continues even if the client that started it disconnects.
func (s *Scraper) joinRound(r *http.Request) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return s.last
	}
	families := vmFamilies()
	next := &round{done: make(chan struct{}), answers: &answers{
		namespace: s.opts.Namespace, families: families, kept: make([]blocks, len(families)),
	}}
	s.last = next
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.scrapeLimit(r))
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

// scrapeLimit returns how long runners may be queried. It is shorter than Prometheus's timeout, since the answer must
// still be sent.
func (s *Scraper) scrapeLimit(r *http.Request) time.Duration {
	seconds, err := strconv.ParseFloat(r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || !(seconds > 0) {
		seconds = usual.Seconds()
	}
	return time.Duration(min(seconds, s.longest.Seconds()) * 0.8 * float64(time.Second))
}

// queryAll queries the runners of all VMs, and returns the VMs without an answer.
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
				a.ends[vm] = s.queryRunner(ctx, a, vm, r, &answer)
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

// queryRunner queries the runner of a VM.
func (s *Scraper) queryRunner(ctx context.Context, a *answers, vm int, r *reader, answer *bytes.Buffer) end {
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
		err = r.readAnswer(answer.Bytes())
	}
	if err != nil {
		s.opts.Log.Debug("no metrics of a VM", "vm", a.vms[vm], "err", err)
		return silent
	}
	a.addReader(vm, r)
	return answered
}

var _ Runner = (*control.Client)(nil)
