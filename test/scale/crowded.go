package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/vm/objects"
)

// How many VMs are created at once, and by how many users.
const (
	newcomers = 1000
	importers = 4
)

// crowded is how long the change of a VM that is running takes to reach its pod while
// many others are created as fast as the API server takes them. In seconds.
type crowded struct {
	VMs     int     `json:"vms"`     // that were created
	Created float64 `json:"created"` // until the last of them was
	Settled float64 `json:"settled"` // until the manager had done everything for all
	Changes int     `json:"changes"` // of VMs that were running
	Changed float64 `json:"changed"` // half of them had arrived by then
	P99     float64 `json:"p99"`
	Most    float64 `json:"most"`
	// Answered is how long the API server took to answer the user who changed a VM.
	Answered     float64 `json:"answered"`
	AnsweredP99  float64 `json:"answeredP99"`
	AnsweredMost float64 `json:"answeredMost"`
	// Reconciled is how long the manager took for a VM, new ones included.
	Reconciled    float64 `json:"reconciled"`
	ReconciledP99 float64 `json:"reconciledP99"`
	// Processor is what the manager has computed until all was settled, Servers what API
	// server, etcd and controllers have.
	Processor float64 `json:"processor"`
	Servers   float64 `json:"servers"`
}

// measureCrowd creates VMs, and changes those that are running meanwhile: their labels, which
// the manager copies to their pods.
func (w *world) measureCrowd(ctx context.Context) (crowded, error) {
	c := crowded{VMs: newcomers}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := w.manager.readMetrics(ctx)
	if err != nil {
		return c, err
	}
	servers := w.serversTime()
	done, begin := make(chan error, 1), time.Now()
	go func() {
		err := w.inviteVMs(ctx)
		c.Created = time.Since(begin).Seconds()
		if err == nil {
			err = w.awaitSeen(ctx)
		}
		done <- err
	}()
	w.kubelet.labels.beginTimes()
	var changed []time.Time
	var answered []float64
	running := w.crowd.made
	ticks := time.NewTicker(pace)
	defer ticks.Stop()
	for created := false; !created; {
		select {
		case err := <-done:
			if err != nil {
				return c, err
			}
			created = true
		case <-ticks.C:
			name := vmName(len(changed) % running)
			patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"%d"}}}`, crowdedLabel, len(changed))
			changed = append(changed, time.Now())
			_, err := w.vms.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			if err != nil {
				return c, fmt.Errorf("change VMs: %w", err)
			}
			answered = append(answered, time.Since(changed[len(changed)-1]).Seconds())
		}
	}
	c.Settled, c.Changes = time.Since(begin).Seconds(), len(changed)
	after, err := w.manager.readMetrics(ctx)
	if err != nil {
		return c, err
	}
	c.accountFor(before, after, answered)
	c.Servers = w.serversTime() - servers
	var took []float64
	err = w.manager.repeatUntil(ctx, "the changes to arrive", func() (err error) {
		took, err = arrivalTimes(changed, running, w.kubelet.labels.allTimes())
		return err
	})
	c.Changed, c.P99, c.Most = quantileAt(took, 0.5), quantileAt(took, 0.99), quantileAt(took, 1)
	return c, err
}

// accountFor sets what the time was spent on.
func (c *crowded) accountFor(before, after metrics, answered []float64) {
	c.Answered, c.AnsweredP99 = quantileAt(answered, 0.5), quantileAt(answered, 0.99)
	c.AnsweredMost = quantileAt(answered, 1)
	c.Reconciled, c.ReconciledP99 = after.quantileOf(0.5, before, reconciled), after.quantileOf(0.99, before,
		reconciled)
	c.Processor = after.sumOf(processor) - before.sumOf(processor)
}

// arrivalTimes returns how long changes of VMs, in turn, took to reach their pods, in seconds. A
// pod that has a later change of its VM has the earlier ones.
func arrivalTimes(changed []time.Time, vms int, seen map[string]time.Time) (took []float64, err error) {
	next := map[int]time.Time{} // by VM, when it had a change at the latest
	for i := len(changed) - 1; i >= 0; i-- {
		at, is := seen[fmt.Sprint(i)]
		if last, had := next[i%vms]; had && (!is || last.Before(at)) {
			at, is = last, true
		}
		if !is {
			return nil, fmt.Errorf("VM %s has not the change %d", vmName(i%vms), i)
		}
		next[i%vms] = at
		took = append(took, at.Sub(changed[i]).Seconds())
	}
	return took, nil
}

// crowdedLabel is the label that is changed.
const crowdedLabel = "changed"

// inviteVMs creates the new VMs, which are stopped.
func (w *world) inviteVMs(ctx context.Context) error {
	numbers, errs := make(chan int), make(chan error, importers)
	for range importers {
		go func() {
			var err error
			for i := range numbers {
				if err != nil {
					continue // what was begun is read to its end
				}
				vm := newVM(i)
				vm.SetName(newcomerName(i))
				vm.SetLabels(map[string]string{objects.LabelComponent: "newcomer"})
				_ = unstructured.SetNestedField(vm.Object, "Stopped", "spec", "vm", "state") // it is there
				_, err = w.vms.Create(ctx, vm, metav1.CreateOptions{})
			}
			errs <- err
		}()
	}
	for i := range newcomers {
		numbers <- i
	}
	close(numbers)
	var failed error
	for range importers {
		if err := <-errs; err != nil {
			failed = fmt.Errorf("create VMs: %w", err)
		}
	}
	return failed
}

func newcomerName(number int) string { return fmt.Sprintf("new-%05d", number) }

// awaitSeen waits until the manager has given all new VMs a status. It asks seldom: the list is
// long.
func (w *world) awaitSeen(ctx context.Context) error {
	for {
		list, err := w.vms.List(ctx, metav1.ListOptions{LabelSelector: objects.LabelComponent + "=newcomer"})
		if err != nil {
			return err
		}
		seen := 0
		for i := range list.Items {
			if phase, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "phase"); phase == "Stopped" {
				seen++
			}
		}
		if seen == newcomers {
			return nil
		}
		select {
		case <-time.After(2 * time.Second):
		case <-w.manager.ended:
			return fmt.Errorf("the manager has ended: %w", w.manager.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
