package manager

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	controllerruntime "sigs.k8s.io/controller-runtime/pkg/manager"

	v1 "vmop/api/v1"
	"vmop/manager/store"
)

// The loss of the API server and its return are logged once each, and single failed requests aren't logged.
func TestReach(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &reach{log: slog.New(slog.NewTextHandler(&log, nil))}
	refused, now := errors.New("connection refused"), time.Unix(1<<30, 0)
	r.recordRequest(nil, now)
	for range 5 {
		r.recordRequest(refused, now.Add(patient))
		require.False(t, r.isAway())
		now = now.Add(patient)
		r.recordRequest(nil, now)
	}
	require.Empty(t, log.String())
	for range 5 {
		now = now.Add(2 * patient)
		r.recordRequest(refused, now)
		require.True(t, r.isAway())
	}
	require.Equal(t, 1, strings.Count(log.String(), "connection refused"))
	r.recordRequest(nil, now)
	r.recordRequest(nil, now)
	require.False(t, r.isAway())
	require.Equal(t, 1, strings.Count(log.String(), "answers again"))
}

// An API server without the resource definitions is distinguished from an unreachable one.
func TestKindsOfTheServer(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"VirtualMachine", "VirtualMachineOperation"} {
		require.ErrorContains(t, knowsKinds(mapper), "the API server has no "+kind+"s: apply their definition")
		mapper.Add(v1.GroupVersion().WithKind(kind), meta.RESTScopeNamespace)
	}
	require.NoError(t, knowsKinds(mapper))
	require.ErrorContains(t, knowsKinds(unreachable{}), "ask the API server for VirtualMachines: no route")
}

type unreachable struct{ meta.RESTMapper }

func (unreachable) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errors.New("no route")
}

// added collects the components that a manager runs.
type added struct {
	ctrl.Manager
	count int
}

func (a *added) Add(controllerruntime.Runnable) error {
	a.count++
	return nil
}

// Traces are sent only if a destination is configured.
func TestTracesAreWanted(t *testing.T) {
	for endpoint, count := range map[string]int{"": 0, "http://127.0.0.1:1": 1} {
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		s, mgr := newStarts(), &added{}
		vms := store.New("vms", func() string { return "" })
		require.NoError(t, s.traceStarts(t.Context(), mgr, "v1", "vms", vms, slog.New(slog.DiscardHandler)))
		require.Equal(t, count, mgr.count, endpoint)
		require.Equal(t, count == 1, s.tracer != nil)
	}
}
