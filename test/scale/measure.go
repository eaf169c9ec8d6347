package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// quietTime is the time without the manager's writes that marks the end of its work.
const quietTime = 5 * time.Second

// plan describes what to measure.
type plan struct {
	sizes  []int         // numbers of VMs, increasing
	settle time.Duration // until memory use is stable
	idle   time.Duration // duration of the idle measurement
}

// measureGrowth starts the manager and adds VMs, and measures at each number of VMs.
func (w *world) measureGrowth(ctx context.Context, r *report, p plan) error {
	w.log("measuring the manager without VMs")
	if err := w.startManager(ctx, 0); err != nil {
		return err
	}
	empty := round{}
	var err error
	if empty.Restarted, err = w.settledMemory(ctx, p.settle); err != nil {
		return err
	}
	empty.Memory = empty.Restarted
	r.Rounds = append(r.Rounds, empty)
	for _, n := range p.sizes {
		w.log(fmt.Sprintf("measuring the manager with %d VMs", n))
		round, err := w.measureRound(ctx, n, p.settle)
		if err != nil {
			return fmt.Errorf("%d VMs: %w", n, err)
		}
		r.Rounds = append(r.Rounds, round)
	}
	w.log("measuring single VMs")
	if r.Single, err = w.measureSingle(ctx); err != nil {
		return err
	}
	if _, err := w.awaitQuiet(ctx, quietTime); err != nil {
		return err
	}
	w.log(fmt.Sprintf("measuring the manager while nothing happens, for %s", p.idle))
	r.Idle = quiet{Seconds: p.idle.Seconds()}
	if r.Idle.Calls, r.Idle.Processor, err = w.measureIdle(ctx, p.idle); err != nil {
		return err
	}
	w.log(fmt.Sprintf("measuring VMs that are running while %d others are created", newcomers))
	r.Crowded, err = w.measureCrowd(ctx)
	return err
}

// measureRound measures at a number of VMs.
func (w *world) measureRound(ctx context.Context, n int, settle time.Duration) (round, error) {
	r := round{VMs: n}
	if err := w.createVMs(ctx, &r); err != nil {
		return r, err
	}
	var err error
	if r.Memory, err = w.settledMemory(ctx, settle); err != nil {
		return r, err
	}
	if err := w.measureRestart(ctx, &r); err != nil {
		return r, err
	}
	r.Restarted, err = w.settledMemory(ctx, settle)
	return r, err
}

// createVMs adds VMs and measures until all have booted.
func (w *world) createVMs(ctx context.Context, r *round) error {
	w.crowd.mu.Lock()
	r.Added = r.VMs - w.crowd.made
	w.crowd.mu.Unlock()
	before, err := w.manager.readMetrics(ctx)
	if err != nil {
		return err
	}
	if _, err := w.audit.drainCalls(); err != nil {
		return err
	}
	servers, begin := w.serversTime(), time.Now()
	if err := w.crowd.growTo(ctx, r.VMs); err != nil {
		return err
	}
	r.Created = time.Since(begin).Seconds()
	if err := w.crowd.awaitRunning(ctx); err != nil {
		return err
	}
	r.Running = time.Since(begin).Seconds()
	if r.Calls, err = w.awaitQuiet(ctx, quietTime); err != nil {
		return err
	}
	after, err := w.manager.readMetrics(ctx)
	if err != nil {
		return err
	}
	r.Median, r.P99 = after.quantileOf(0.5, before, reconciled), after.quantileOf(0.99, before, reconciled)
	r.Reconciled = after.sumOf(reconciled+"_count") - before.sumOf(reconciled+"_count")
	r.Processor, r.Servers = after.sumOf(processor)-before.sumOf(processor), w.serversTime()-servers
	return nil
}

// serversTime returns the CPU time of the control plane in seconds. It limits the rate of creating VMs on a machine.
func (w *world) serversTime() float64 {
	const ticks = 100 // per second, for all programs (USER_HZ)
	sum := 0.0
	for _, id := range w.Processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.PID))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // after the program's name; see proc(5)
		fields := strings.Fields(rest)
		for _, i := range []int{11, 12} { // utime, stime
			n, err := strconv.Atoi(fields[i])
			if err == nil {
				sum += float64(n) / ticks
			}
		}
	}
	return sum
}

// Metrics of the manager.
const (
	processor  = "process_cpu_seconds_total" // CPU time
	reconciled = "controller_runtime_reconcile_time_seconds"
)

// measureRestart measures a manager that starts with existing VMs.
func (w *world) measureRestart(ctx context.Context, r *round) error {
	if err := w.manager.stopManager(); err != nil {
		return err
	}
	if _, err := w.audit.drainCalls(); err != nil {
		return err
	}
	if err := w.startManager(ctx, r.VMs); err != nil {
		return err
	}
	m := w.manager
	r.Synced = time.Since(m.began).Seconds()
	err := m.repeatUntil(ctx, "the manager to have looked at all VMs", func() error {
		all, err := m.readMetrics(ctx)
		if err != nil {
			return err
		}
		looked, waiting := all.sumOf(reconciled+"_count"), all.sumOf("workqueue_depth")
		if int(looked) < r.VMs || waiting > 0 {
			return fmt.Errorf("it has looked at %.0f of %d, and %.0f wait", looked, r.VMs, waiting)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.Looked = time.Since(m.began).Seconds()
	all, err := m.readMetrics(ctx)
	if err != nil {
		return err
	}
	r.Idle, r.IdleP99 = all.quantileOf(0.5, nil, reconciled), all.quantileOf(0.99, nil, reconciled)
	r.AfterRestart, err = w.awaitQuiet(ctx, quietTime)
	return err
}

// awaitQuiet waits until the manager has written nothing for a time, and returns its calls since the audit log was last
// read.
func (w *world) awaitQuiet(ctx context.Context, calm time.Duration) (calls, error) {
	all := calls{}
	last := time.Now()
	err := w.manager.repeatUntil(ctx, "the manager to write no more", func() error {
		more, err := w.audit.drainCalls()
		if err != nil {
			return err
		}
		all.addCalls(more)
		if more.countWrites() > 0 {
			last = time.Now()
		}
		if time.Since(last) < calm {
			return fmt.Errorf("it has written %s", more)
		}
		return nil
	})
	return all, err
}

// measureIdle measures a time without changes.
func (w *world) measureIdle(ctx context.Context, lasts time.Duration) (asked calls, processorTime float64, err error) {
	before, err := w.manager.readMetrics(ctx)
	if err != nil {
		return nil, 0, err
	}
	if _, err := w.audit.drainCalls(); err != nil {
		return nil, 0, err
	}
	select {
	case <-time.After(lasts):
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	after, err := w.manager.readMetrics(ctx)
	if err != nil {
		return nil, 0, err
	}
	asked, err = w.audit.drainCalls()
	return asked, after.sumOf(processor) - before.sumOf(processor), err
}

// settledMemory returns the manager's memory after it has freed unused memory.
func (w *world) settledMemory(ctx context.Context, settle time.Duration) (bytes int, err error) {
	select {
	case <-time.After(settle):
	case <-w.manager.ended:
		return 0, fmt.Errorf("the manager has ended: %w\n%s", w.manager.err, w.manager.lastWords())
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return w.manager.residentBytes()
}

// fitLine fits a line to points by least squares. fit is the coefficient of determination; 1 is perfect.
func fitLine(x, y []float64) (slope, fit float64) {
	n := float64(len(x))
	var sx, sy, sxx, sxy, syy float64
	for i := range x {
		sx, sy, sxx, sxy, syy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i], syy+y[i]*y[i]
	}
	cov, vx, vy := n*sxy-sx*sy, n*sxx-sx*sx, n*syy-sy*sy
	if vx == 0 || vy == 0 {
		return math.NaN(), math.NaN()
	}
	return cov / vx, cov * cov / (vx * vy)
}
