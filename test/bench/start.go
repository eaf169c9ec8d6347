package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// measureStart compares complete starts, until QEMU has acknowledged cont. The driver plugs no CPUs, so it is compared
// with a machine with one CPU. The other machine has spare CPUs, as most VMs do.
func measureStart(b *bench) ([]result, error) {
	usual := hardware{vmType: "standard", tpm: true, cpus: 1, max: 1}
	v, err := b.newVM("start", usual)
	if err != nil {
		return nil, err
	}
	plugging, err := b.newVM("plugging", hardware{vmType: "standard", tpm: true, cpus: 2, max: 4})
	if err != nil {
		return nil, err
	}
	image, err := v.firstStart()
	if err != nil {
		return nil, err
	}
	if _, err := plugging.firstStart(); err != nil {
		return nil, err
	}
	bare, language, err := b.buildProgram("bare")
	if err != nil {
		return nil, err
	}
	todo, err := v.planLaunch()
	if err != nil {
		return nil, err
	}
	idler, err := b.buildGo("mark")
	if err != nil {
		return nil, err
	}
	earlier, err := b.earlierCandidate(usual)
	if err != nil {
		return nil, err
	}
	driver := "bare QEMU, by a driver in " + language
	candidates := []candidate{
		{name: driver, once: func() (map[string]float64, error) { return v.runBare(bare, todo, image) }},
		{name: "vmrunner", peer: driver, once: v.runMeasured},
		{name: "vmrunner, plugging 1 of 3 more CPUs", peer: driver, once: plugging.runMeasured},
		b.libvirtCandidate(v, image, driver),
		earlier,
		{name: aGoProgram, once: func() (map[string]float64, error) {
			return cpuTime(exec.CommandContext(b.ctx, idler))
		}},
	}
	all, err := b.interleaveCandidates(candidates)
	if err != nil {
		return nil, err
	}
	list := withGoal(all.compareCandidates(candidates, "start", "ms"), "vmrunner", 0, 1.10)
	cpu := all.compareCandidates([]candidate{{name: "vmrunner", peer: aGoProgram}, {name: aGoProgram}}, "cpu", "ms")
	cpu[0].Name, cpu[0].Goal = "CPU time of vmrunner until then", 5
	cpu[1].Name = "CPU time of " + aGoProgram
	list = append(list, cpu...)
	for _, q := range []struct{ quantity, unit string }{{"start", "ms"}, {"cpu", "ms"}, {"resident", "MB"}} {
		list = append(list, all.toEarlier(q.quantity, q.unit)...)
	}
	return list, nil
}

// earlierVMRunner is the candidate of the option -before.
const earlierVMRunner = "the vmrunner of -before"

// earlierCandidate returns the candidate that starts the VM with the program of -before, if set.
func (b *bench) earlierCandidate(h hardware) (candidate, error) {
	if b.before == "" {
		return candidate{name: earlierVMRunner, skipped: "there is no -before"}, nil
	}
	v, err := b.newVM("before", h)
	if err != nil {
		return candidate{}, err
	}
	v.program = b.before
	_, err = v.firstStart()
	return candidate{name: earlierVMRunner, once: v.runMeasured}, err
}

// toEarlier compares vmrunner with the vmrunner of -before, if set.
func (s samples) toEarlier(quantity, unit string) []result {
	if s[earlierVMRunner] == nil {
		return nil
	}
	list := s.compareCandidates([]candidate{{name: "vmrunner", peer: earlierVMRunner}}, quantity, unit)
	list[0].Name = quantity + " of vmrunner"
	return list
}

// aGoProgram is the lower bound for the CPU time of vmrunner's start: a minimal Go program.
const aGoProgram = "a Go program that writes one line"

// cpuTime runs a program to its end and returns its CPU time.
func cpuTime(cmd *exec.Cmd) (map[string]float64, error) {
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return map[string]float64{"cpu": toMillis(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())}, nil
}

// firstStart creates the UUID, the firmware variables, the TPM state and the pinned type. It returns the cloud-init
// image, which exists only while the VM runs.
func (v *benchVM) firstStart() ([]byte, error) {
	r, err := v.startRunner()
	if err != nil {
		return nil, err
	}
	image, err := os.ReadFile(filepath.Join(v.runtimeDir(), "cloud-init.img"))
	return image, errors.Join(err, r.stopRunner())
}

// runMeasured starts and ends the VM with vmrunner.
func (v *benchVM) runMeasured() (map[string]float64, error) {
	r, err := v.startRunner()
	if err != nil {
		return nil, err
	}
	cpu, err := r.cpuMillis()
	rollup := readProc(fmt.Sprintf("/proc/%d/smaps_rollup", r.cmd.Process.Pid))
	numbers := map[string]float64{"start": r.millis, "cpu": cpu, "resident": rollupMegabytes(rollup, "Rss")}
	return numbers, errors.Join(err, r.stopRunner())
}

// runBare starts and ends the VM with the driver. It creates the folder of the sockets and the cloud-init image first.
func (v *benchVM) runBare(driver string, todo launch, image []byte) (numbers map[string]float64, err error) {
	if err := os.MkdirAll(v.runtimeDir(), 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(v.runtimeDir())) }()
	if err := os.WriteFile(filepath.Join(v.runtimeDir(), "cloud-init.img"), image, 0o600); err != nil {
		return nil, err
	}
	if len(todo.Helpers) != 1 || len(todo.Sockets) != 1 {
		return nil, fmt.Errorf("the plan has %d helpers and %d sockets to listen on, want one of each",
			len(todo.Helpers), len(todo.Sockets))
	}
	args := append([]string{"-t", todo.Sockets[0].Path, todo.Helpers[0].Dir}, todo.Helpers[0].commandLine()...)
	args = append(append(args, "--"), todo.QEMU.commandLine()...)
	cmd := exec.CommandContext(v.bench.ctx, driver, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	took := toMillis(time.Since(begin))
	_ = stdin.Close() // the driver may have ended
	_, _ = io.Copy(io.Discard, stdout)
	if err := errors.Join(err, cmd.Wait()); err != nil || line != "cont\n" {
		return nil, fmt.Errorf("the driver said %q: %w\n%s", line, err, &complaints)
	}
	return map[string]float64{"start": took}, nil
}
