// Package trace sends traces of the starts of VMs by OpenTelemetry, if the environment names where to: from the pod to
// the guest's first word.
//
//	t, err := trace.New(ctx, trace.Options{Version: version, Namespace: namespace, VM: store.VM, Log: log})
//	store.OnChange(t.Changed)
//
// A trace is made when a start has ended, of the times that are known then, so that a VM costs nothing on the way;
// these are whole seconds, as Kubernetes has them. See docs/decisions/0155-traces.md.
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
	"vmop/manager/decide"
)

const (
	// patience is how long a guest is waited for that has no agent, or boots for long.
	patience = 15 * time.Minute
	// most is how many guests are waited for at a time.
	most = 10_000
	// last is what the collector gets at the end to take what is left.
	last = 3 * time.Second
)

// Wanted reports whether the environment names a collector, by the variables of OpenTelemetry:
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
func Wanted() bool {
	return os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
}

// Options are what a Tracer needs.
type Options struct {
	Version, Namespace string
	// VM returns a VM; nil if there is none of that name.
	VM  func(name string) (*v1.VirtualMachine, error)
	Log *slog.Logger
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// A Tracer sends traces. Its methods return at once, and may be called concurrently. A nil one does nothing.
type Tracer struct {
	opts     Options
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	base     context.Context // of all spans
	changes  chan string

	mu    sync.Mutex
	boots map[string]boot // guests that have not said anything yet, by VM
}

// boot is a start of which the end of the guest's boot is missing.
type boot struct {
	start decide.Start
	trace context.Context // of the span of the start
}

// New returns a tracer, or nil if none is wanted.
func New(ctx context.Context, opts Options) (*Tracer, error) {
	if !Wanted() {
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

// Run follows the guests that boot until ctx is done, and sends what is left then.
func (t *Tracer) Run(ctx context.Context) error {
	if t == nil {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), last)
			defer cancel()
			_ = t.provider.Shutdown(ending) // the error handler says it
			return nil
		case vm := <-t.changes:
			t.end(vm)
		}
	}
}

// Started makes the trace of a start.
func (t *Tracer) Started(s decide.Start) {
	if t == nil {
		return
	}
	ctx, whole := t.tracer.Start(t.base, "vm.start", trace.WithTimestamp(s.Made), trace.WithAttributes(
		attribute.String("vmop.vm.name", s.VM), attribute.String("k8s.pod.uid", string(s.Pod)),
		attribute.String("k8s.node.name", s.Node)))
	ready := s.Made
	if !s.Taken.IsZero() {
		t.part(ctx, "pod.schedule", s.Made, s.Taken)
		ready = s.Taken
	}
	t.part(ctx, "pod.prepare", ready, s.Ran)
	t.part(ctx, "machine.start", s.Ran, s.Guest)
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

func (t *Tracer) part(ctx context.Context, name string, from, to time.Time) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(to))
}

// Changed learns that something about a VM has changed.
func (t *Tracer) Changed(vm string) {
	t.mu.Lock()
	_, boots := t.boots[vm]
	t.mu.Unlock()
	if !boots {
		return
	}
	select {
	case t.changes <- vm:
	default: // there are more changes than can be followed: this trace is left without its end
	}
}

// end ends the trace of a VM whose guest's agent has answered.
func (t *Tracer) end(name string) {
	t.mu.Lock()
	b, boots := t.boots[name]
	t.mu.Unlock()
	if !boots {
		return
	}
	vm, err := t.opts.VM(name)
	if err != nil {
		return // of this moment; a later change is seen
	}
	over := vm == nil || vm.Status.Runner == nil || vm.Status.Runner.PodUID != b.start.Pod
	if !over {
		c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionBooted)
		if c == nil || c.Status != metav1.ConditionTrue || c.LastTransitionTime.Time.Before(b.start.Guest) {
			return
		}
		t.part(b.trace, "guest.boot", b.start.Guest, c.LastTransitionTime.Time)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.boots, name)
}
