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

// The idle times after the guest has booted, before and during the measurement. A booting guest keeps its runner busy:
// firmware and kernel set clocks, network filters and consoles.
const (
	settleTime = 10 * time.Second
	idleTime   = 20 * time.Second
)

// measureIdle measures the resources of an idle runner next to its QEMU.
func measureIdle(b *bench) (list []result, err error) {
	image, err := guest.Build(b.ctx, filepath.Join(b.dir, "guest"))
	if err != nil {
		return nil, err
	}
	v, err := b.newVM("idle", hardware{vmType: "standard", tpm: true, cpus: 2, max: 4, guest: &image})
	if err != nil {
		return nil, err
	}
	r, err := v.startRunner()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stopRunner()) }()
	if _, err := awaitText(b.ctx, v.consoleLog(), "READY", time.Now()); err != nil {
		return nil, err
	}
	if err := b.waitFor(settleTime); err != nil {
		return nil, err
	}
	switchesBefore, err := r.contextSwitches()
	if err != nil {
		return nil, err
	}
	cpuBefore, err := r.cpuMillis()
	if err != nil {
		return nil, err
	}
	if err := b.waitFor(idleTime); err != nil {
		return nil, err
	}
	switches, err := r.contextSwitches()
	if err != nil {
		return nil, err
	}
	cpu, err := r.cpuMillis()
	if err != nil {
		return nil, err
	}
	rollup := readProc(fmt.Sprintf("/proc/%d/smaps_rollup", r.cmd.Process.Pid))
	resident := singleResult("resident (RSS)", "MB", rollupMegabytes(rollup, "Rss"))
	resident.Goal = 14
	if qemu := rollupMegabytes(readProc(fmt.Sprintf("/proc/%s/smaps_rollup", r.childPid("qemu"))), "Rss"); qemu > 0 {
		resident.Ratio, resident.RatioTo = resident.Samples[0]/qemu, "its QEMU"
	}
	return []result{
		resident,
		singleResult("PSS", "MB", rollupMegabytes(rollup, "Pss")),
		singleResult("of it not of the program's file", "MB", rollupMegabytes(rollup, "Anonymous")),
		singleResult("threads", "", float64(len(threadsOf(r.cmd.Process.Pid)))),
		singleResult("context switches in a second", "", float64(switches-switchesBefore)/idleTime.Seconds()),
		singleResult("CPU time in a minute", "ms", (cpu-cpuBefore)/idleTime.Minutes()),
	}, nil
}

func (b *bench) waitFor(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

func threadsOf(pid int) []string {
	list, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return nil // the only possible error is a malformed pattern
	}
	return list
}

// childPid returns the process ID of the child with this prefix of its program's name, or "".
func (r *running) childPid(program string) string {
	for _, task := range threadsOf(r.cmd.Process.Pid) {
		for _, pid := range strings.Fields(readProc(task + "/children")) {
			if strings.HasPrefix(readProc("/proc/"+pid+"/comm"), program) {
				return pid
			}
		}
	}
	return ""
}

// contextSwitches returns the number of context switches of all threads so far.
func (r *running) contextSwitches() (int, error) {
	total := 0
	for _, task := range threadsOf(r.cmd.Process.Pid) {
		status := readProc(task + "/status")
		for _, name := range []string{"voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"} {
			n, err := strconv.Atoi(procField(status, name))
			if err != nil {
				return 0, fmt.Errorf("%s of %s: %w", name, task, err)
			}
			total += n
		}
	}
	return total, nil
}

// rollupMegabytes returns a field of smaps_rollup, which uses KiB, in megabytes, or 0 if the field is missing.
func rollupMegabytes(rollup, name string) float64 {
	kib, err := strconv.ParseFloat(strings.TrimSuffix(procField(rollup, name), " kB"), 64)
	if err != nil {
		return 0
	}
	return kib * 1024 / 1e6
}
