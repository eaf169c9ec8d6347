package record

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vmop/internal/atomicfile"
	"vmop/internal/childprocess"
	"vmop/runner/config"
	"vmop/runner/prepare"
)

// StartedBy returns the runtime directory of the VM that a configuration file has started, according to its
// record; empty if it isn't recorded. Use it if the file no longer contains the VM's location. The VM may have
// ended.
func StartedBy(file string) string {
	_, dir := findByFile(file)
	return dir
}

// Left returns the process number of a VM's QEMU if it is running, with or without a runner; otherwise 0. It also
// returns the configuration file that has started the VM, if that is recorded.
func Left(runtimeDir string) (pid int, file string) {
	r, there, err := Read(runtimeDir)
	if err == nil && there && r.QEMU.Runs() {
		return r.QEMU.PID, r.ConfigFile
	}
	listening, err := childprocess.SocketHolders(filepath.Join(runtimeDir, prepare.MonitorSocket))
	if err != nil || len(listening) == 0 {
		return 0, ""
	}
	return listening[0].PID, r.ConfigFile
}

// RunningBy returns the VM that was started with a configuration file, and may be running; nil if it isn't
// recorded. Use it if the file is invalid now and doesn't show the VM's location.
func RunningBy(ctx context.Context, file string) *prepare.VM {
	r, dir := findByFile(file)
	if r == nil {
		return nil
	}
	vm, err := r.VM(context.WithoutCancel(ctx), dir)
	if err != nil {
		return nil
	}
	return vm
}

// findByFile returns the record of the VM that a configuration file has started, and its runtime directory; nil if
// there is no record.
func findByFile(file string) (*Machine, string) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, ""
	}
	for _, at := range config.Machines(config.HostEnv(), prepare.MonitorSocket) {
		r, there, err := Read(at.RuntimeDir)
		if err == nil && there && r.ConfigFile == file {
			return &r, at.RuntimeDir
		}
	}
	return nil, ""
}

// Link records the runtime directory in the data directory.
func Link(dataDir, runtimeDir string) error {
	if at, noted := Linked(dataDir, ""); noted && at == runtimeDir {
		return nil
	}
	return linkDirectories(dataDir, runtimeDir)
}

func linkDirectories(dataDir, runtimeDir string) error {
	if err := atomicfile.Link(runtimeDir, filepath.Join(dataDir, prepare.RuntimeLink)); err != nil {
		return fmt.Errorf("note the runtime directory in the data directory: %w", err)
	}
	return nil
}

// LinkedSince reports whether the runtime directory was recorded after a time. If that is after the start of a
// QEMU, its guest has run, regardless of QEMU's state: a guest that is reset while it is paused looks as if it
// had never run.
func LinkedSince(dataDir string, start time.Time) bool {
	info, err := os.Lstat(filepath.Join(dataDir, prepare.RuntimeLink))
	return err == nil && !info.ModTime().Before(start)
}

// Linked returns the runtime directory of the machine with a running guest; if it isn't recorded, the configured
// directory.
func Linked(dataDir, configured string) (dir string, noted bool) {
	if at, err := os.Readlink(filepath.Join(dataDir, prepare.RuntimeLink)); err == nil {
		return at, true
	}
	return configured, false
}
