package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"vmop/test/guest"
)

// benchVM is a virtual machine to measure. Its files are below one folder.
type benchVM struct {
	bench   *bench
	dir     string
	config  string // path of the configuration
	vmTypes string // folder of custom types
	program string // the vmrunner to use
}

// hardware contains the differences between the measured machines.
type hardware struct {
	vmType    string
	tpm       bool
	cpus, max int
	guest     *guest.Image // booted instead of the empty disk; may be nil
}

// newVM writes the configuration of a desktop: OVMF, a screen, a disk, a network card, cloud-init.
func (b *bench) newVM(name string, h hardware) (*benchVM, error) {
	v := &benchVM{bench: b, dir: filepath.Join(b.dir, name), vmTypes: b.dir, program: b.vmrunner}
	v.config = filepath.Join(v.dir, "config.yaml")
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(v.diskFile(), nil, 0o600), os.Truncate(v.diskFile(), 1<<30)); err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, `"/Runner":
  dataDir: data
  runtimeDir: %s
  vmType: %s
  cloudInit:
    metaData: {local-hostname: bench}
    userData:
      users: [{name: bench, sudo: "ALL=(ALL) NOPASSWD:ALL"}]
  vm:
    name: bench
    accelerator: tcg
    firmware: uefi-4m
    useTpm: %t
    maximumCpus: %d
    currentCpus: %d
    maximumRam: 1 GiB
    network: [{type: user}]
    display: {vnc: {}}
    drives: [{file: disk.img}]
    powerdownTimeout: 0
`, v.runtimeDir(), h.vmType, h.tpm, h.max, h.cpus)
	if h.guest != nil {
		text = fmt.Appendf(text, `    serialConsole: {log: console.log}
    kernel: {image: %s, initrd: %s, commandLine: "console=ttyS0 quiet"}
`, h.guest.Kernel, h.guest.Initrd)
	}
	return v, os.WriteFile(v.config, text, 0o600)
}

func (v *benchVM) consoleLog() string { return filepath.Join(v.dir, "console.log") }
func (v *benchVM) diskFile() string   { return filepath.Join(v.dir, "disk.img") }
func (v *benchVM) runtimeDir() string { return filepath.Join(v.dir, "run") }

func (v *benchVM) runnerCommand(verb string, args ...string) *exec.Cmd {
	args = append([]string{verb, "-c", v.config, "--vmtypes", v.vmTypes, "--log-format", "json"}, args...)
	return exec.CommandContext(v.bench.ctx, v.program, args...)
}

// running is a vmrunner with a running guest.
type running struct {
	cmd    *exec.Cmd
	log    *bufio.Reader
	millis float64 // from the start of vmrunner to the acknowledged cont
}

// startRunner starts the runner and returns when the guest runs.
func (v *benchVM) startRunner(args ...string) (*running, error) {
	cmd := v.runnerCommand("run", args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	r := &running{cmd: cmd, log: bufio.NewReader(stderr)}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var text strings.Builder
	for {
		line, err := r.log.ReadString('\n')
		if strings.Contains(line, `"msg":"booting"`) {
			r.millis = toMillis(time.Since(begin))
			return r, nil
		}
		text.WriteString(line)
		if err != nil {
			return nil, fmt.Errorf("the VM does not start: %w\n%s", errors.Join(cmd.Wait(), err), &text)
		}
	}
}

// stopRunner ends the VM and waits for the end.
func (r *running) stopRunner() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end vmrunner: %w", err)
	}
	rest, err := io.ReadAll(r.log)
	if err = errors.Join(err, r.cmd.Wait()); err != nil {
		return fmt.Errorf("end the VM: %w\n%s", err, rest)
	}
	return nil
}

// cpuMillis returns the run time of the process's threads, including threads that have ended, but without child
// processes. Each process has a clock (clock_getcpuclockid(3)).
func (r *running) cpuMillis() (float64, error) {
	const byScheduler = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^r.cmd.Process.Pid<<3|byScheduler), &t); err != nil {
		return 0, fmt.Errorf("read the clock of process %d: %w", r.cmd.Process.Pid, err)
	}
	return float64(t.Nano()) / 1e6, nil
}

// launch contains the parts of a launch plan that are needed to run it.
type launch struct {
	QEMU    process   `json:"qemu"`
	Helpers []process `json:"helpers"`
	Sockets []struct {
		Path string `json:"path"`
	} `json:"listeners"`
}

type process struct {
	Executable string `json:"executable"`
	Dir        string `json:"dir"`
	Args       []struct {
		Words []string `json:"words"`
	} `json:"args"`
}

// commandLine returns the program and its arguments. Descriptors, at most one here, have the number 3.
func (p process) commandLine() []string {
	words := []string{p.Executable}
	for _, a := range p.Args {
		words = append(words, a.Words...)
	}
	for i := range words {
		if before, after, ok := strings.Cut(words[i], "fd=<"); ok {
			_, after, _ = strings.Cut(after, ">")
			words[i] = before + "fd=3" + after
		}
	}
	return words
}

// planLaunch returns vmrunner's launch plan for the VM.
func (v *benchVM) planLaunch() (launch, error) {
	var l launch
	out, err := v.runnerCommand("plan", "-o", "json").Output()
	if err != nil {
		return l, fmt.Errorf("vmrunner plan: %w", err)
	}
	if err := json.Unmarshal(out, &l); err != nil {
		return l, fmt.Errorf("read the plan: %w", err)
	}
	return l, nil
}

func toMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
