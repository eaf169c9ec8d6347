package manager

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	core "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"

	"vmop/manager/vm/controller"
	"vmop/manager/web/fleet/cluster"
	"vmop/manager/web/serve"
	"vmop/manager/web/stream"
)

// newPages returns the pages of a namespace. They follow the configuration.
func newPages(opts Options, mgr ctrl.Manager, secrets core.SecretInterface, namespace string, types planner,
	vms *controller.Controller, keys *stream.Keys, live *live, log *slog.Logger,
) (*serve.Pages, error) {
	reviews, err := authorization.NewForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("set up the pages: %w", err)
	}
	tokens, err := authentication.NewForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("set up the pages: %w", err)
	}
	direct, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("set up the pages: %w", err)
	}
	machines := cluster.New(cluster.Options{
		Namespace: namespace, Store: vms.Store(), Volumes: vms.Volumes(), Client: direct, Keys: keys,
		Types: types, Instance: opts.Instance, Log: log, Assign: vms.Pools(),
	})
	pages, err := serve.New(serve.Options{
		Fleet: machines, Rights: machines.Rights, PoolRights: machines.PoolRights, Namespace: namespace,
		Secrets: secrets, Reviews: reviews.SubjectAccessReviews(), Tokens: tokens.TokenReviews(),
		Title:     strings.TrimPrefix(live.source.current.GUI.ClusterName+"/"+namespace, "/"),
		FirstStep: "kubectl -n " + namespace + " apply -f vm.yaml",
		Version:   opts.Version, Log: log,
	}, live.source.current.pagesConfig())
	if err != nil {
		return nil, fmt.Errorf("set up the pages: %w", err)
	}
	live.pages = pages
	return pages, nil
}

// pagesConfig returns the part of the configuration that the pages need.
func (c Config) pagesConfig() serve.Config {
	return serve.Config{
		Port: c.GUI.Port, TLSFolder: c.GUI.TLSFolder, ForgetFile: c.GUI.DeleteConnectionFile,
		Login: c.Login, Access: c.Access,
	}
}

// pageMetrics collects the metrics of the pages. It implements prometheus.Collector.
type pageMetrics struct {
	figures func() serve.Figures

	logIns, logOuts, delayed, refused, sessions, pages, streams *prometheus.Desc
}

func newPageMetrics(figures func() serve.Figures) pageMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return pageMetrics{
		figures:  figures,
		logIns:   desc("vmop_logins_total", "Users that have logged in at this manager."),
		logOuts:  desc("vmop_logouts_total", "Users that have logged out at this manager."),
		delayed:  desc("vmop_logins_delayed_total", "Attempts to log in that were delayed after others had failed."),
		refused:  desc("vmop_logins_refused_total", "Attempts to log in, and tokens, that were refused.", "cause"),
		sessions: desc("vmop_sessions", "Sessions in use at this manager."),
		pages:    desc("vmop_pages_open", "Pages that are open and kept current by this manager."),
		streams:  desc("vmop_streams_open", "Screens, consoles and ports of guests that are connected through this manager.", "kind"),
	}
}

// Describe implements prometheus.Collector.
func (m pageMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m pageMetrics) Collect(to chan<- prometheus.Metric) {
	f := m.figures()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, float64(value), labels...)
	}
	send(m.logIns, prometheus.CounterValue, f.Login.LogIns)
	send(m.logOuts, prometheus.CounterValue, f.Login.LogOuts)
	send(m.delayed, prometheus.CounterValue, f.Login.Delayed)
	for cause, count := range f.Login.Refused {
		send(m.refused, prometheus.CounterValue, count, cause)
	}
	send(m.sessions, prometheus.GaugeValue, int64(f.Login.Sessions))
	send(m.pages, prometheus.GaugeValue, f.Open.Pages)
	send(m.streams, prometheus.GaugeValue, f.Open.Screens, "screen")
	send(m.streams, prometheus.GaugeValue, f.Open.Consoles, "console")
	send(m.streams, prometheus.GaugeValue, f.Open.Ports, "port")
}
