package scrape

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"vmop/manager/vm/objects"
	"vmop/manager/web/stream"
	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/control/remote"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// machine is a runner's machine with two disks.
type machine struct{}

func (machine) Act(context.Context, control.Action, string) error { return nil }
func (machine) Plan() *plan.Plan                                  { return nil }
func (machine) Dropped() uint64                                   { return 0 }
func (machine) Run(context.Context, qmp.Command) (json.RawMessage, error) {
	const stats = `{"qdev":"/machine/peripheral/disk-%d/virtio-backend",` +
		`"stats":{"rd_bytes":123456789,"wr_bytes":98765432,"rd_operations":12345,"wr_operations":5432,"flush_operations":321,"rd_total_time_ns":1234567890,` +
		`"wr_total_time_ns":987654321,"flush_total_time_ns":12345678}}`
	return fmt.Appendf(nil, "["+stats+","+stats+"]", 0, 1), nil
}

// runners returns the servers of real runners, reachable by mutual TLS, and the keys to them.
func runners(t testing.TB, count int) (*stream.Keys, []stream.Target) {
	t.Helper()
	cluster := fake.NewClientset()
	discard := slog.New(slog.DiscardHandler)
	keys := stream.NewKeys(cluster.CoreV1().Secrets("vms"), cluster.CoreV1().ConfigMaps("vms"), discard)
	require.NoError(t, keys.Refresh(t.Context()))
	published, err := cluster.CoreV1().ConfigMaps("vms").Get(t.Context(), objects.ManagerCA, metav1.GetOptions{})
	require.NoError(t, err)
	authorities := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(authorities, []byte(published.Data[config.AuthoritiesFile]), 0o600))
	var targets []stream.Target
	for range count {
		dir, err := os.MkdirTemp("", "scrape")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
		tracker := status.NewTracker(time.Now, status.Described{Name: "as it says itself"},
			status.Entered{State: vmstatus.StateBooted})
		server, err := control.Start(t.Context(), control.Options{
			Dir: dir, Backend: machine{}, Tracker: tracker, Log: discard,
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
		listener, err := remote.Listen(t.Context(), remote.Options{Authorities: authorities, Log: discard})
		require.NoError(t, err)
		server.ServeRemote(listener)
		targets = append(targets, stream.Target{
			Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(listener.Port())), Key: listener.Key(),
		})
	}
	return keys, targets
}

// fixed is a runner with a fixed answer.
type fixed string

func (f fixed) Metrics(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, string(f))
	return err
}

// play is a runner that a test plays.
type play func(ctx context.Context, w io.Writer) error

func (p play) Metrics(ctx context.Context, w io.Writer) error { return p(ctx, w) }

// of returns a scraper of runners for the VMs with these names, in this order.
func of(names []string, runner func(vm string) (Runner, error)) *Scraper {
	return New(Options{
		Namespace: "demo", VMs: func() []string { return append([]string(nil), names...) },
		Runner: runner, Log: slog.New(slog.DiscardHandler),
	})
}

func get(s *Scraper) string {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest("GET", "/metrics/vms", nil))
	return w.Body.String()
}

// genuine returns the answer of a real runner.
func genuine(t testing.TB) string {
	t.Helper()
	keys, targets := runners(t, 1)
	var text bytes.Buffer
	require.NoError(t, keys.Bounded(targets[0], MostBytes).Metrics(t.Context(), &text))
	return text.String()
}

// fleet is the number of VMs in a large installation.
const fleet = 5000

func names() (all []string) {
	for i := range fleet {
		all = append(all, fmt.Sprintf("vm-%04d", i))
	}
	return all
}
