package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"vmop/test/guest"
)

// bootTime is the maximum time to wait for a guest.
const bootTime = 3 * time.Minute

// measureBoot compares the standard type with microvm: the time until the tiny guest prints its first line, and until
// it is ready. QEMU boots the guest's kernel directly, with BIOS firmware. Every machine has a disk, a network card and
// a serial port.
func measureBoot(b *bench) ([]result, error) {
	image, err := guest.Build(b.ctx, filepath.Join(b.dir, "guest"))
	if err != nil {
		return nil, err
	}
	var candidates []candidate
	for _, m := range []struct{ name, vmType, options string }{
		{"standard", "standard", ""},
		{"microvm with PCI Express", "microvm", "pcie: true"},
		{"microvm", "microvm", ""},
	} {
		v, err := b.newGuest(m.name, m.vmType, m.options, image)
		if err != nil {
			return nil, err
		}
		c := candidate{name: m.name, once: v.bootOnce}
		if len(candidates) > 0 {
			c.peer = candidates[0].name
		}
		candidates = append(candidates, c)
	}
	few := *b // a guest takes seconds
	few.rounds = min(b.rounds, 5)
	all, err := few.interleaveCandidates(candidates)
	if err != nil {
		return nil, err
	}
	list := all.compareCandidates(candidates, "first", "ms")
	for _, r := range all.compareCandidates(candidates, "ready", "ms") {
		r.Name += ", until it is ready"
		list = append(list, r)
	}
	return list, nil
}

// newGuest writes the configuration of a VM that boots the tiny guest.
func (b *bench) newGuest(name, vmType, options string, image guest.Image) (*benchVM, error) {
	v := &benchVM{bench: b, dir: filepath.Join(b.dir, "boot "+name), vmTypes: b.dir}
	v.config = filepath.Join(v.dir, "config.yaml")
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(v.diskFile(), nil, 0o600), os.Truncate(v.diskFile(), 1<<30)); err != nil {
		return nil, err
	}
	return v, os.WriteFile(v.config, fmt.Appendf(nil, `"/Runner":
  dataDir: data
  runtimeDir: run
  vmType: %s
  vm:
    name: bench
    accelerator: tcg
    firmware: bios
    maximumRam: 256 MiB
    network: [{type: user}]
    drives: [{file: disk.img}]
    serialConsole: {log: console.log}
    kernel:
      image: %s
      initrd: %s
      commandLine: console=ttyS0 tsc_early_khz=%s
    options: {%s}
    powerdownTimeout: 0
`, vmType, image.Kernel, image.Initrd, cpuFrequency(), options), 0o600)
}

// bootOnce starts the VM, waits for the guest's messages, and ends the VM.
func (v *benchVM) bootOnce() (map[string]float64, error) {
	if err := os.RemoveAll(v.consoleLog()); err != nil {
		return nil, err
	}
	begin := time.Now()
	r, err := v.startRunner()
	if err != nil {
		return nil, err
	}
	first, err := awaitText(v.bench.ctx, v.consoleLog(), "Linux version", begin)
	ready, readyErr := awaitText(v.bench.ctx, v.consoleLog(), "READY", begin)
	return map[string]float64{"first": first, "ready": ready}, errors.Join(err, readyErr, r.stopRunner())
}

// awaitText waits until a file contains a text, and returns the time since begin.
func awaitText(ctx context.Context, file, text string, begin time.Time) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	for {
		content, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		if bytes.Contains(content, []byte(text)) {
			return toMillis(time.Since(begin)), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for %q on the guest's console: %w\n%s", text, ctx.Err(), content)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// cpuFrequency returns this machine's frequency in kHz, for a guest that has no timer to measure it.
func cpuFrequency() string {
	if found := regexp.MustCompile(`(?m)^cpu MHz\s*: (\d+)\.(\d{3})$`).FindStringSubmatch(
		readProc("/proc/cpuinfo")); found != nil {
		return found[1] + found[2]
	}
	return "2000000"
}
