package record

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vmop/durable"
	"vmop/process"
	"vmop/runner/config"
	"vmop/runner/prepare"
)

// StartedBy returns the runtime directory of the VM that a configuration file
// has started, as the record in it says; empty if there is none. It is for a
// file that doesn't say any more where the VM is. The VM may have ended.
func StartedBy(file string) string {
	_, dir := by(file)
	return dir
}

// Left returns the process number of the QEMU of a VM, and the configuration file
// that has started it, if that is recorded, if it runs, with or without a runner; else 0.
func Left(runtimeDir string) (pid int, file string) {
	r, there, err := Read(runtimeDir)
	if err == nil && there && r.QEMU.Runs() {
		return r.QEMU.PID, r.ConfigFile
	}
	listening, err := process.SocketHolders(filepath.Join(runtimeDir, prepare.MonitorSocket))
	if err != nil || len(listening) == 0 {
		return 0, ""
	}
	return listening[0].PID, r.ConfigFile
}

// RunningBy returns the VM that was started by a configuration file, and may
// run; nil if there is none. The file has faults now, so it doesn't say where
// the VM is.
func RunningBy(ctx context.Context, file string) *prepare.VM {
	r, dir := by(file)
	if r == nil {
		return nil
	}
	vm, err := r.VM(context.WithoutCancel(ctx), dir)
	if err != nil {
		return nil
	}
	return vm
}

// by returns the record of the VM that a configuration file has started,
// and where it is; nil if there is none.
func by(file string) (*Machine, string) {
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

// Link notes in the data directory where the runtime directory is.
func Link(dataDir, runtimeDir string) error {
	if at, noted := Linked(dataDir, ""); noted && at == runtimeDir {
		return nil
	}
	return link(dataDir, runtimeDir)
}

func link(dataDir, runtimeDir string) error {
	if err := durable.Link(runtimeDir, filepath.Join(dataDir, prepare.RuntimeLink)); err != nil {
		return fmt.Errorf("note the runtime directory in the data directory: %w", err)
	}
	return nil
}

// LinkedSince reports whether the runtime directory was noted after a time. After the start of a QEMU that means that
// its guest has run, whatever QEMU says: a guest that is reset while it is paused looks as if it never had.
func LinkedSince(dataDir string, start time.Time) bool {
	info, err := os.Lstat(filepath.Join(dataDir, prepare.RuntimeLink))
	return err == nil && !info.ModTime().Before(start)
}

// Linked returns the runtime directory of the machine whose guest runs;
// if none is noted, the one that is configured now.
func Linked(dataDir, configured string) (dir string, noted bool) {
	if at, err := os.Readlink(filepath.Join(dataDir, prepare.RuntimeLink)); err == nil {
		return at, true
	}
	return configured, false
}
