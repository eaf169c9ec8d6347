package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	v1 "vmop/api/v1"
	"vmop/manager/store"
	"vmop/manager/vm/controller"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/scrape"
	"vmop/manager/vm/trace"
	"vmop/manager/web/serve"
	"vmop/manager/web/stream"
)

// metrics serves /metrics and /metrics/vms. /metrics contains the metrics of the libraries (reconciliations,
// queue, API calls, Go) and of the manager. /metrics/vms contains the metrics of VMs. metrics implements
// prometheus.Collector.
type metrics struct {
	address string
	version string
	vms     *controller.Controller
	leads   <-chan struct{} // closed when this manager becomes the leader
	live    *live
	api     *reach
	pages   pageMetrics
	starts  *starts
	scraper *scrape.Scraper

	build, phases, generation, faulty, away, pools, claims *prometheus.Desc
}

func newMetrics(opts Options, mgr ctrl.Manager, vms *controller.Controller, live *live, api *reach,
	pages *serve.Pages, starts *starts, namespace string, keys *stream.Keys, log *slog.Logger,
) store.Always {
	m := &metrics{
		address: opts.MetricsAddress, version: opts.Version,
		vms: vms, leads: mgr.Elected(), live: live, api: api, pages: newPageMetrics(pages.Figures), starts: starts,
		build: prometheus.NewDesc("vmop_build_info", "The program; always 1.",
			[]string{"version", "go_version"}, nil),
		phases: prometheus.NewDesc("vmop_vms", "VMs by phase, as the leader sees them.",
			[]string{"phase"}, nil),
		generation: prometheus.NewDesc("vmop_config_generation",
			"Number of configurations that have been active since the start.", nil, nil),
		faulty: prometheus.NewDesc("vmop_config_faulty",
			"1 if the configuration has errors, so an earlier configuration is active.", nil, nil),
		away: prometheus.NewDesc("vmop_apiserver_away",
			"1 if the API server does not answer.", nil, nil),
		pools: prometheus.NewDesc("vmop_pool_vms", "VMs of a pool by state, as the leader sees them.",
			[]string{"pool", "state"}, nil),
		claims: prometheus.NewDesc("vmop_pool_claims_total",
			"How often users have asked this manager for a VM of a pool, by the result.", []string{"result"}, nil),
	}
	m.scraper = newScraper(namespace, vms.Store(), keys, m.isLeader, log)
	return m.serveMetrics
}

// starts records how long VMs took to start.
type starts struct {
	*prometheus.HistogramVec

	tracer *trace.Tracer // nil: tracing is off
}

func newStarts() *starts {
	return &starts{HistogramVec: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "vmop_vm_start_seconds",
		Help:    "How long VMs took to start: until the container ran (pod), and from then until the guest did (machine).",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600},
	}, []string{"step"})}
}

func (s *starts) observeStart(t decide.Start) {
	s.tracer.Started(t)
	s.WithLabelValues("pod").Observe(t.Preparation().Seconds())
	s.WithLabelValues("machine").Observe(t.Machine().Seconds())
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.build, m.phases, m.generation, m.faulty, m.away, m.pools, m.claims} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	is := map[bool]float64{true: 1}
	gauge(m.build, 1, m.version, runtime.Version())
	gauge(m.generation, float64(m.live.generation.Load()))
	gauge(m.faulty, is[m.live.faulty.Load()])
	gauge(m.away, is[m.api.isAway()])
	for phase, count := range m.countPhases() {
		gauge(m.phases, float64(count), string(phase))
	}
	for result, count := range m.vms.Pools().Claims() {
		to <- prometheus.MustNewConstMetric(m.claims, prometheus.CounterValue, float64(count), string(result))
	}
	if !m.isLeader() {
		return // a sum over all managers must count each VM once
	}
	for name, states := range m.vms.Pools().States() {
		for state, count := range states {
			gauge(m.pools, float64(count), name, string(state))
		}
	}
}

// isLeader reports whether this manager is the leader.
func (m *metrics) isLeader() bool {
	select {
	case <-m.leads:
		return true
	default:
		return false
	}
}

// countPhases returns the number of VMs by phase, or nil if another manager is the leader or the VMs are not known
// yet.
func (m *metrics) countPhases() map[v1.Phase]int {
	if !m.isLeader() {
		return nil // a sum over all managers must count each VM once
	}
	counts := m.vms.Phases()
	if counts == nil {
		return nil
	}
	for _, phase := range []v1.Phase{
		v1.PhaseStarting, v1.PhaseRunning, v1.PhaseMigrating, v1.PhaseStopping, v1.PhaseStopped, v1.PhaseTerminating,
		v1.PhaseFailed,
	} {
		counts[phase] += 0 // include phases without a VM
	}
	counts[v1.PhasePending] += counts[""] // new VMs
	delete(counts, "")
	return counts
}

// serveMetrics serves the metrics until ctx is done.
func (m *metrics) serveMetrics(ctx context.Context) error {
	if m.address == "" {
		return nil
	}
	own := prometheus.NewRegistry()
	if err := errors.Join(own.Register(m), own.Register(m.pages), own.Register(m.starts)); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", m.address)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	all := prometheus.Gatherers{ctrlmetrics.Registry, own}
	mux.Handle("GET /metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{}))
	mux.Handle("GET /metrics/vms", m.scraper)
	const patience = 10 * time.Second
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: patience, WriteTimeout: 3 * patience,
		IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16,
	}
	go func() {
		<-ctx.Done()
		_ = server.Close() // a stopping program needs no metrics
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
