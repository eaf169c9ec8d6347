package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// measureExec puts a program in QEMU's place that says when it was started.
func measureExec(b *bench) ([]result, error) {
	mark, language, err := b.build("mark")
	if err != nil {
		return nil, err
	}
	v, err := b.newMarkedVM("exec", b.vmrunner, mark)
	if err != nil {
		return nil, err
	}
	direct := "a program in " + language + ", started directly"
	candidates := []candidate{
		{name: direct, once: func() (map[string]float64, error) {
			return timeMark(mark, exec.CommandContext(b.ctx, mark))
		}},
		{name: "vmrunner", peer: direct, once: func() (map[string]float64, error) {
			return timeMark(mark, v.command("run"))
		}},
		{name: "vmrunner version, whole", peer: direct, once: func() (map[string]float64, error) {
			return wholeTime(exec.CommandContext(b.ctx, b.vmrunner, "version"))
		}},
		{name: "vmrunner plan, whole", peer: direct, once: func() (map[string]float64, error) {
			return wholeTime(v.command("plan"))
		}},
	}
	if b.before != "" {
		other, err := b.newMarkedVM("before", b.before, mark)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, candidate{
			name: earlierVMRunner, peer: direct,
			once: func() (map[string]float64, error) { return timeMark(mark, other.command("run")) },
		})
	}
	all, err := b.interleave(candidates)
	if err != nil {
		return nil, err
	}
	list := all.toEarlier("time", "ms")
	return append(list, withGoal(all.compare(candidates, "time", "ms"), "vmrunner", 4, 0)...), nil
}

// newMarkedVM returns a VM of a program that runs mark in place of QEMU. Its first
// start, with a real QEMU, has pinned its type, as with every VM.
func (b *bench) newMarkedVM(name, program, mark string) (*benchVM, error) {
	v, err := b.newVM(name, hardware{vmType: "marked-" + name, cpus: 2, max: 4})
	if err != nil {
		return nil, err
	}
	v.program = program
	source := fmt.Sprintf(`load("@vmtypes//standard.star", standard = "launch")

def launch(vm, host):
    return combine(replace(standard(vm, host), executable = %q)`, mark)
	if program == b.vmrunner { // an earlier one may not confine what it starts
		source += fmt.Sprintf(", part(access = [access(%q, \"write\")])", filepath.Dir(mark))
	}
	source += ")\n"
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(v.vmTypes, "marked-"+name+".star"), []byte(source), 0o600),
		os.Rename(mark, mark+".kept"),
		os.WriteFile(mark, []byte("#!/bin/sh\nexec "+qemu+" \"$@\"\n"), 0o700),
	)
	if err != nil {
		return nil, err
	}
	r, err := v.run()
	if err != nil {
		return nil, err
	}
	return v, errors.Join(r.stop(), os.Rename(mark+".kept", mark))
}

// timeMark returns the time from the start of cmd until mark is started.
func timeMark(mark string, cmd *exec.Cmd) (map[string]float64, error) {
	if err := os.RemoveAll(mark + ".time"); err != nil {
		return nil, err
	}
	begin, err := monotonic()
	if err != nil {
		return nil, err
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError // it isn't QEMU, so vmrunner is not content
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	end, err := strconv.ParseInt(strings.TrimSpace(read(mark+".time")), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s was not started: %w\n%s", mark, err, out)
	}
	return map[string]float64{"time": float64(end-begin) / 1e6}, nil
}

// wholeTime returns the time from the start of cmd until it has ended.
func wholeTime(cmd *exec.Cmd) (map[string]float64, error) {
	begin, err := monotonic()
	if err != nil {
		return nil, err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	end, err := monotonic()
	return map[string]float64{"time": float64(end-begin) / 1e6}, err
}

// monotonic is the clock that all processes share, in nanoseconds.
func monotonic() (int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano(), err
}
