package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"vmop/test/wait"
)

// traces is a collector in the cluster's network.
type traces struct {
	mu    sync.Mutex
	spans []string // names of ended spans
}

// trace makes the manager send traces until the test ends.
func (l *lab) trace(t *testing.T) *traces {
	t.Helper()
	listener, err := l.Listen(t.Context())
	require.NoError(t, err)
	c := &traces{}
	serveOn(t, listener, c)
	set := func(ctx context.Context, variable string) {
		for _, args := range [][]string{
			{"set", "env", "deployment/vm-operator", variable},
			{"rollout", "status", "deployment/vm-operator", "--timeout=4m"},
		} {
			_, err := l.Kubectl(ctx, append([]string{"-n", namespace}, args...)...)
			require.NoError(t, err)
		}
	}
	set(t.Context(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+listener.Addr().String())
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), "OTEL_EXPORTER_OTLP_ENDPOINT-") })
	return c
}

func (c *traces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, s.Name)
			}
		}
	}
}

// have waits until all spans of one start have arrived.
func (c *traces) have(t *testing.T, names ...string) {
	t.Helper()
	slices.Sort(names)
	wait.For(t, "the trace of a start", func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if got := slices.Sorted(slices.Values(c.spans)); !slices.Equal(got, names) {
			return fmt.Errorf("its spans are %v", got)
		}
		return nil
	})
}
