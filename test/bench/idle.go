package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"vmop/test/guest"
)

// How long a runner is left alone, after its guest has booted, before and while it is
// measured. A guest that boots keeps its runner busy: firmware and kernel set clocks,
// network filters and consoles.
const (
	settleTime = 10 * time.Second
	idleTime   = 20 * time.Second
)

// measureIdle measures a runner that has nothing to do, beside QEMU.
func measureIdle(b *bench) (list []result, err error) {
	image, err := guest.Build(b.ctx, filepath.Join(b.dir, "guest"))
	if err != nil {
		return nil, err
	}
	v, err := b.newVM("idle", hardware{vmType: "standard", tpm: true, cpus: 2, max: 4, guest: &image})
	if err != nil {
		return nil, err
	}
	r, err := v.run()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	if _, err := awaitText(b.ctx, v.console(), "READY", time.Now()); err != nil {
		return nil, err
	}
	if err := b.wait(settleTime); err != nil {
		return nil, err
	}
	switchesBefore, err := r.switches()
	if err != nil {
		return nil, err
	}
	cpuBefore, err := r.cpuMillis()
	if err != nil {
		return nil, err
	}
	if err := b.wait(idleTime); err != nil {
		return nil, err
	}
	switches, err := r.switches()
	if err != nil {
		return nil, err
	}
	cpu, err := r.cpuMillis()
	if err != nil {
		return nil, err
	}
	rollup := read(fmt.Sprintf("/proc/%d/smaps_rollup", r.cmd.Process.Pid))
	resident := one("resident (RSS)", "MB", megabytes(rollup, "Rss"))
	resident.Goal = 14
	if qemu := megabytes(read(fmt.Sprintf("/proc/%s/smaps_rollup", r.child("qemu"))), "Rss"); qemu > 0 {
		resident.Ratio, resident.RatioTo = resident.Samples[0]/qemu, "its QEMU"
	}
	return []result{
		resident,
		one("PSS", "MB", megabytes(rollup, "Pss")),
		one("of it not of the program's file", "MB", megabytes(rollup, "Anonymous")),
		one("threads", "", float64(len(tasks(r.cmd.Process.Pid)))),
		one("context switches in a second", "", float64(switches-switchesBefore)/idleTime.Seconds()),
		one("CPU time in a minute", "ms", (cpu-cpuBefore)/idleTime.Minutes()),
	}, nil
}

func (b *bench) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

func tasks(pid int) []string {
	list, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return nil // only a malformed pattern is an error
	}
	return list
}

// child returns the process id of the child whose program's name begins so, or "".
func (r *running) child(program string) string {
	for _, task := range tasks(r.cmd.Process.Pid) {
		for _, pid := range strings.Fields(read(task + "/children")) {
			if strings.HasPrefix(read("/proc/"+pid+"/comm"), program) {
				return pid
			}
		}
	}
	return ""
}

// switches counts the context switches of all threads so far.
func (r *running) switches() (int, error) {
	total := 0
	for _, task := range tasks(r.cmd.Process.Pid) {
		status := read(task + "/status")
		for _, name := range []string{"voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"} {
			n, err := strconv.Atoi(field(status, name))
			if err != nil {
				return 0, fmt.Errorf("%s of %s: %w", name, task, err)
			}
			total += n
		}
	}
	return total, nil
}

// megabytes returns a field of smaps_rollup, which counts in KiB; 0 if it is not
// there.
func megabytes(rollup, name string) float64 {
	kib, err := strconv.ParseFloat(strings.TrimSuffix(field(rollup, name), " kB"), 64)
	if err != nil {
		return 0
	}
	return kib * 1024 / 1e6
}
