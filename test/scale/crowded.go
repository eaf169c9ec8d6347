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

// The number of VMs created at the same time, and the number of users that create them.
const (
	newcomers = 1000
	importers = 4
)

// crowded measures how long the change of a running VM takes to reach its pod while users create many others at the
// highest rate that the API server allows. Times are in seconds.
type crowded struct {
	VMs     int     `json:"vms"`     // created VMs
	Created float64 `json:"created"` // until the last was created
	Settled float64 `json:"settled"` // until the manager had finished all work
	Changes int     `json:"changes"` // of running VMs
	Changed float64 `json:"changed"` // median time until a change arrived
	P99     float64 `json:"p99"`
	Most    float64 `json:"most"`
	// Answered is the API server's median response time to a user who changed a VM.
	Answered     float64 `json:"answered"`
	AnsweredP99  float64 `json:"answeredP99"`
	AnsweredMost float64 `json:"answeredMost"`
	// Reconciled is the manager's median time for reconciling a VM, including new VMs.
	Reconciled    float64 `json:"reconciled"`
	ReconciledP99 float64 `json:"reconciledP99"`
	// Processor is the manager's CPU time until the end of all work, Servers the CPU time of API server, etcd and
	// controllers.
	Processor float64 `json:"processor"`
	Servers   float64 `json:"servers"`
}

// measureCrowd creates VMs. At the same time it changes labels of running VMs, which the manager copies to their pods.
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

// accountFor sets the times and CPU times of the servers and the manager.
func (c *crowded) accountFor(before, after metrics, answered []float64) {
	c.Answered, c.AnsweredP99 = quantileAt(answered, 0.5), quantileAt(answered, 0.99)
	c.AnsweredMost = quantileAt(answered, 1)
	c.Reconciled, c.ReconciledP99 = after.quantileOf(0.5, before, reconciled), after.quantileOf(0.99, before,
		reconciled)
	c.Processor = after.sumOf(processor) - before.sumOf(processor)
}

// arrivalTimes returns the seconds that changes of VMs took to reach their pods. A pod with a later change of its VM
// contains the earlier changes.
func arrivalTimes(changed []time.Time, vms int, seen map[string]time.Time) (took []float64, err error) {
	next := map[int]time.Time{} // by VM, the earliest known arrival of its next change
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
					continue // drain the channel after an error
				}
				vm := newVM(i)
				vm.SetName(newcomerName(i))
				vm.SetLabels(map[string]string{objects.LabelComponent: "newcomer"})
				_ = unstructured.SetNestedField(vm.Object, "Stopped", "spec", "vm", "state") // the field exists
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

// awaitSeen waits until the manager has written a status for all new VMs. It polls rarely, because the list is long.
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
