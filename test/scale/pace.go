package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
)

// The interval and number of repetitions when measuring single VMs.
const (
	pace  = 200 * time.Millisecond
	steps = 100
)

// single contains the times for actions on single VMs while there are many VMs, at a rate that does not overload the
// API server and the manager. Times are in seconds.
type single struct {
	VMs int `json:"vms"` // existing VMs
	// Reconciled and ReconciledP99 are the manager's times for reconciling a VM, including all requests to the API
	// server.
	Reconciled    float64 `json:"reconciled"`
	ReconciledP99 float64 `json:"reconciledP99"`
	// Booted is the time from the creation of a VM until its guest has booted.
	Booted    float64 `json:"booted"`
	BootedP99 float64 `json:"bootedP99"`
	// Edited is the time from a change of a running VM until its pod has the annotation with which the kubelet delivers
	// the new configuration.
	Edited    float64 `json:"edited"`
	EditedP99 float64 `json:"editedP99"`
	// Operated is the time from the creation of a reset operation until the pod receives it.
	Operated    float64 `json:"operated"`
	OperatedP95 float64 `json:"operatedP95"`
}

// measureSingle creates VMs and changes them, one at a time.
func (w *world) measureSingle(ctx context.Context) (single, error) {
	var s single
	before, err := w.manager.readMetrics(ctx)
	if err != nil {
		return s, err
	}
	booted, first, err := w.createPaced(ctx)
	if err != nil {
		return s, err
	}
	edited, err := w.changePaced(ctx, first, func(name string) error {
		_, err := w.vms.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"vm":{"currentRam":"3Gi"}}}`),
			metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return s, err
	}
	operated, err := w.changePaced(ctx, first, func(name string) error {
		_, err := w.operations.Create(ctx, resetOf(name), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return s, err
	}
	after, err := w.manager.readMetrics(ctx)
	if err != nil {
		return s, err
	}
	w.crowd.mu.Lock()
	s.VMs = w.crowd.made
	w.crowd.mu.Unlock()
	s.Reconciled, s.ReconciledP99 = after.quantileOf(0.5, before, reconciled), after.quantileOf(0.99, before,
		reconciled)
	s.Booted, s.BootedP99 = quantileAt(booted, 0.5), quantileAt(booted, 0.99)
	s.Edited, s.EditedP99 = quantileAt(edited, 0.5), quantileAt(edited, 0.99)
	s.Operated, s.OperatedP95 = quantileAt(operated, 0.5), quantileAt(operated, 0.95)
	return s, nil
}

// createPaced creates VMs. It returns the boot time of each, and the number of the first.
func (w *world) createPaced(ctx context.Context) (took []float64, first int, err error) {
	w.crowd.mu.Lock()
	first = w.crowd.made
	w.crowd.mu.Unlock()
	created := map[string]time.Time{}
	err = repeatPaced(ctx, func(i int) error {
		created[vmName(first+i)] = time.Now()
		return w.crowd.growTo(ctx, first+i+1)
	})
	if err != nil {
		return nil, first, err
	}
	if err := w.crowd.awaitRunning(ctx); err != nil {
		return nil, first, err
	}
	w.crowd.mu.Lock()
	defer w.crowd.mu.Unlock()
	for name, at := range created {
		took = append(took, w.crowd.up[name].Sub(at).Seconds())
	}
	return took, first, nil
}

// resetOf returns an operation that resets a VM.
func resetOf(vm string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1.GroupVersion().String(), "kind": "VirtualMachineOperation",
		"metadata": map[string]any{"name": "reset-" + vm},
		"spec":     map[string]any{"type": string(v1.OperationReset), "virtualMachineName": vm},
	}}
}

// changePaced changes VMs and returns the times until their pods received the changes.
func (w *world) changePaced(ctx context.Context, first int, change func(name string) error) ([]float64, error) {
	w.kubelet.told.beginTimes()
	changed := map[string]time.Time{}
	err := repeatPaced(ctx, func(i int) error {
		name := vmName(first + i)
		changed[name+"-0"] = time.Now()
		return change(name)
	})
	if err != nil {
		return nil, fmt.Errorf("change VMs: %w", err)
	}
	var took []float64
	err = w.manager.repeatUntil(ctx, "the changes to arrive", func() error {
		told := w.kubelet.told.allTimes()
		if len(told) < len(changed) {
			return fmt.Errorf("%d of %d pods have them", len(told), len(changed))
		}
		for name, at := range changed {
			took = append(took, told[name].Sub(at).Seconds())
		}
		return nil
	})
	return took, err
}

// repeatPaced calls do at regular intervals.
func repeatPaced(ctx context.Context, do func(i int) error) error {
	ticks := time.NewTicker(pace)
	defer ticks.Stop()
	for i := range steps {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// times records when something was first seen, by name.
type times struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (t *times) beginTimes() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = map[string]time.Time{}
}

func (t *times) recordTime(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, seen := t.seen[name]; t.seen != nil && !seen {
		t.seen[name] = time.Now()
	}
}

func (t *times) allTimes() map[string]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.seen)
}

// quantileAt returns a quantile of values.
func quantileAt(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}
