package trace

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/test/wait"
)

// collected contains the data that a collector has received.
type collected struct {
	mu       sync.Mutex
	requests []*collector.ExportTraceServiceRequest
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collector.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, request)
}

// at returns the time of a second after the start.
func at(second int) time.Time { return time.Unix(int64(1000+second), 0) }

// trial is a tracer with a modifiable VM.
type trial struct {
	*Tracer
	mu  sync.Mutex
	vm  *v1.VirtualMachine
	end func()
}

func newTrial(t *testing.T, endpoint string) *trial {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	r := &trial{vm: &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}
	r.vm.Status.Runner = &v1.RunnerStatus{PodUID: "u"}
	made, err := New(t.Context(), Options{
		Version: "v1", Namespace: "demo", Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return at(60) },
		VM: func(string) (*v1.VirtualMachine, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.vm.DeepCopy(), nil
		},
	})
	require.NoError(t, err)
	r.Tracer = made
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(ctx) }()
	r.end = func() { cancel(); <-ended }
	return r
}

// booted sets the VM to booted.
func (r *trial) booted(second int) {
	r.mu.Lock()
	r.vm.Status.Conditions = []metav1.Condition{{
		Type: v1.ConditionBooted, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(second)),
	}}
	r.mu.Unlock()
	r.Changed("web")
}

func (r *trial) waits() int {
	r.Tracer.mu.Lock()
	defer r.Tracer.mu.Unlock()
	return len(r.boots)
}

func start() decide.Start {
	return decide.Start{VM: "web", Node: "n1", Pod: "u", Made: at(0), Taken: at(2), Ran: at(5), Guest: at(6)}
}

// A start becomes a trace with its parts, and the end of the boot is added when the guest's agent answers.
func TestTrace(t *testing.T) {
	c := &collected{}
	server := httptest.NewServer(c)
	defer server.Close()
	r := newTrial(t, server.URL)
	r.Changed("other")
	r.Started(start())
	r.booted(3) // of an earlier start
	require.Never(t, func() bool { return r.waits() == 0 }, 100*time.Millisecond, 10*time.Millisecond)
	r.booted(31)
	wait.Until(t, func() bool { return r.waits() == 0 })
	r.booted(32)
	r.end()

	got := map[string]*spans.Span{}
	attributes := map[string]string{}
	for _, request := range c.requests {
		for _, of := range request.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				attributes[a.Key] = a.Value.GetStringValue()
			}
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					require.NotContains(t, got, s.Name)
					got[s.Name] = s
				}
			}
		}
	}
	require.Subset(t, attributes, map[string]string{
		"service.name": "vm-operator", "service.version": "v1", "k8s.namespace.name": "demo",
		"deployment.environment.name": "test",
	})
	root := got["vm.start"]
	require.NotNil(t, root)
	require.Empty(t, root.ParentSpanId)
	for name, times := range map[string][2]int{
		"vm.start": {0, 6}, "pod.schedule": {0, 2}, "pod.prepare": {2, 5}, "machine.start": {5, 6},
		"guest.boot": {6, 31},
	} {
		s := got[name]
		require.NotNil(t, s, name)
		require.Equal(t, root.TraceId, s.TraceId)
		require.Equal(t, at(times[0]).UnixNano(), int64(s.StartTimeUnixNano), name)
		require.Equal(t, at(times[1]).UnixNano(), int64(s.EndTimeUnixNano), name)
		if name != "vm.start" {
			require.Equal(t, root.SpanId, s.ParentSpanId)
		}
	}
	require.Len(t, got, 5)
}

// The tracer stops waiting for a VM after its pod has been replaced or deleted.
func TestTraceOfAVMThatIsGone(t *testing.T) {
	server := httptest.NewServer(&collected{})
	defer server.Close()
	r := newTrial(t, server.URL)
	defer r.end()
	r.Started(start())
	r.mu.Lock()
	r.vm.Status.Runner.PodUID = "another"
	r.mu.Unlock()
	r.booted(31)
	wait.Until(t, func() bool { return r.waits() == 0 })
}

// A collector that never answers delays only the end, and only for a limited time.
func TestACollectorThatHangs(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	r := newTrial(t, server.URL)
	for range 20_000 { // more than the queue holds
		r.Started(start())
		r.Changed("web")
	}
	r.end()
}

// Without a collector no tracer is created, and a nil tracer does nothing.
func TestNoCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	none, err := New(t.Context(), Options{})
	require.NoError(t, err)
	require.Nil(t, none)
	none.Started(start())
	require.NoError(t, none.Run(t.Context()))
}
