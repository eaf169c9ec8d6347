package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// measureExec replaces QEMU with a program that prints the time of its start.
func measureExec(b *bench) ([]result, error) {
	mark, language, err := b.buildProgram("mark")
	if err != nil {
		return nil, err
	}
	v, err := b.newMarkedVM("exec", b.vmrunner)
	if err != nil {
		return nil, err
	}
	direct := "a program in " + language + ", started directly"
	candidates := []candidate{
		{name: direct, once: func() (map[string]float64, error) {
			return timeMark(exec.CommandContext(b.ctx, mark))
		}},
		v.untilMark("vmrunner", direct, mark),
		{name: "vmrunner version, whole", peer: direct, once: func() (map[string]float64, error) {
			return wholeTime(exec.CommandContext(b.ctx, b.vmrunner, "version"))
		}},
		{name: "vmrunner plan, whole", peer: direct, once: func() (map[string]float64, error) {
			return wholeTime(v.runnerCommand("plan"))
		}},
	}
	if b.before != "" {
		other, err := b.newMarkedVM("before", b.before)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, other.untilMark(earlierVMRunner, direct, mark))
	}
	all, err := b.interleaveCandidates(candidates)
	if err != nil {
		return nil, err
	}
	list := all.toEarlier("time", "ms")
	return append(list, withGoal(all.compareCandidates(candidates, "time", "ms"), "vmrunner", 4, 0)...), nil
}

// newMarkedVM returns a VM of the standard type that has been started before, so that its type is pinned, as for most
// starts.
func (b *bench) newMarkedVM(name, program string) (*benchVM, error) {
	v, err := b.newVM(name, hardware{vmType: "standard", cpus: 2, max: 4})
	if err != nil {
		return nil, err
	}
	v.program = program
	r, err := v.startRunner()
	if err != nil {
		return nil, err
	}
	return v, r.stopRunner()
}

// untilMark measures the time from a start until mark runs. It needs root to replace QEMU: a VM type that names another
// program would be evaluated in a separate process.
func (v *benchVM) untilMark(name, peer, mark string) candidate {
	c := candidate{name: name, peer: peer, once: func() (numbers map[string]float64, err error) {
		err = inQEMUsPlace(mark, func() (err error) {
			numbers, err = timeMark(v.runnerCommand("run"))
			return err
		})
		return numbers, err
	}}
	if os.Geteuid() != 0 {
		c.skipped = "only root can put a program in QEMU's place"
	}
	return c
}

// inQEMUsPlace calls f in a thread that sees mark at QEMU's path. Child processes of the thread see it as well.
func inQEMUsPlace(mark string, f func() error) error {
	qemu, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNS))
		if err == nil {
			err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
				unix.Mount(mark, qemu, "", unix.MS_BIND, ""))
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// timeMark returns the time from the start of cmd until mark runs.
func timeMark(cmd *exec.Cmd) (map[string]float64, error) {
	begin, err := monotonicTime()
	if err != nil {
		return nil, err
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError // vmrunner fails because mark isn't QEMU
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	said := regexp.MustCompile(`\bmark (\d+)`).FindSubmatch(out) // may be within a log line
	if said == nil {
		return nil, fmt.Errorf("mark was not started: %w\n%s", err, out)
	}
	end, err := strconv.ParseInt(string(said[1]), 10, 64)
	return map[string]float64{"time": float64(end-begin) / 1e6}, err
}

// wholeTime returns the time from the start of cmd until its end.
func wholeTime(cmd *exec.Cmd) (map[string]float64, error) {
	begin, err := monotonicTime()
	if err != nil {
		return nil, err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	end, err := monotonicTime()
	return map[string]float64{"time": float64(end-begin) / 1e6}, err
}

// monotonicTime returns the clock that all processes share, in nanoseconds.
func monotonicTime() (int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return now.Nano(), err
}
