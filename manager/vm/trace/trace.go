// Package trace sends OpenTelemetry traces of VM starts, if the environment names a collector. A trace covers the
// time from the creation of the pod to the first answer of the guest's agent.
//
//	t, err := trace.New(ctx, trace.Options{Version: version, Namespace: namespace, VM: store.VM, Log: log})
//	store.OnChange(t.Changed)
//
// A trace is created at the end of a start from the recorded times, so a VM costs nothing while it starts. The times
// are whole seconds, as in Kubernetes. See docs/decisions/0155-traces.md.
package trace

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
)

const (
	// patience is how long to wait for a guest that lacks an agent or boots slowly.
	patience = 15 * time.Minute
	// most is the maximum number of guests to wait for at the same time.
	most = 10_000
	// last is the time limit for sending the remaining traces at the end.
	last = 3 * time.Second
)

// isCollectorNamed reports whether the environment names a collector, with the variables of OpenTelemetry:
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
func isCollectorNamed() bool {
	return os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
}

// Options contains what a Tracer needs.
type Options struct {
	Version, Namespace string
	// VM returns a VM, or nil if it doesn't exist.
	VM  func(name string) (*v1.VirtualMachine, error)
	Log *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Tracer sends traces. Its methods return immediately, and can be called concurrently. On a nil Tracer, Run and Started
// do nothing.
type Tracer struct {
	opts     Options
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	base     context.Context // parent of all spans
	changes  chan string

	mu    sync.Mutex
	boots map[string]boot // guests that have not answered yet, by VM
}

// boot is a start with a guest that is still booting.
type boot struct {
	start decide.Start
	trace context.Context // contains the span of the start
}

// New returns a Tracer, or nil if the environment names no collector.
func New(ctx context.Context, opts Options) (*Tracer, error) {
	if !isCollectorNamed() {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	what, err := resource.Merge(resource.NewSchemaless(
		attribute.String("service.name", "vm-operator"), attribute.String("service.version", opts.Version),
		attribute.String("k8s.namespace.name", opts.Namespace),
	), resource.Environment())
	if err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { opts.Log.Warn("traces are lost", "err", err) }))
	t := &Tracer{
		opts: opts, provider: sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(what)),
		base: context.WithoutCancel(ctx), changes: make(chan string, most), boots: map[string]boot{},
	}
	t.tracer = t.provider.Tracer("vmop/manager")
	return t, nil
}

// Run follows booting guests until ctx is done, and then sends the remaining traces.
func (t *Tracer) Run(ctx context.Context) error {
	if t == nil {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), last)
			defer cancel()
			_ = t.provider.Shutdown(ending) // the error handler logs it
			return nil
		case vm := <-t.changes:
			t.endTrace(vm)
		}
	}
}

// Started creates the trace of a start.
func (t *Tracer) Started(s decide.Start) {
	if t == nil {
		return
	}
	ctx, whole := t.tracer.Start(t.base, "vm.start", trace.WithTimestamp(s.Made), trace.WithAttributes(
		attribute.String("vmop.vm.name", s.VM), attribute.String("k8s.pod.uid", string(s.Pod)),
		attribute.String("k8s.node.name", s.Node)))
	ready := s.Made
	if !s.Taken.IsZero() {
		t.addSpan(ctx, "pod.schedule", s.Made, s.Taken)
		ready = s.Taken
	}
	t.addSpan(ctx, "pod.prepare", ready, s.Ran)
	t.addSpan(ctx, "machine.start", s.Ran, s.Guest)
	whole.End(trace.WithTimestamp(s.Guest))

	t.mu.Lock()
	defer t.mu.Unlock()
	for vm, b := range t.boots {
		if t.opts.Now().Sub(b.start.Guest) > patience {
			delete(t.boots, vm)
		}
	}
	if len(t.boots) < most {
		t.boots[s.VM] = boot{s, ctx}
	}
}

func (t *Tracer) addSpan(ctx context.Context, name string, from, to time.Time) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(to))
}

// Changed notifies the tracer of a change of a VM.
func (t *Tracer) Changed(vm string) {
	t.mu.Lock()
	_, boots := t.boots[vm]
	t.mu.Unlock()
	if !boots {
		return
	}
	select {
	case t.changes <- vm:
	default: // too many changes to follow: this trace has no end
	}
}

// endTrace completes the trace of a VM after its guest's agent has answered.
func (t *Tracer) endTrace(name string) {
	t.mu.Lock()
	b, boots := t.boots[name]
	t.mu.Unlock()
	if !boots {
		return
	}
	vm, err := t.opts.VM(name)
	if err != nil {
		return // a temporary error; a later change triggers another attempt
	}
	over := vm == nil || vm.Status.Runner == nil || vm.Status.Runner.PodUID != b.start.Pod
	if !over {
		c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionBooted)
		if c == nil || c.Status != metav1.ConditionTrue || c.LastTransitionTime.Time.Before(b.start.Guest) {
			return
		}
		t.addSpan(b.trace, "guest.boot", b.start.Guest, c.LastTransitionTime.Time)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.boots, name)
}
