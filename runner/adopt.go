package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"vmop/durable"
	"vmop/process"
	"vmop/runner/config"
	"vmop/runner/lock"
	"vmop/runner/machine"
	"vmop/vmstatus"
)

// remainsTime is how long processes that an earlier runner has left are waited
// for, once they have been signalled.
const remainsTime = 10 * time.Second

// leftTime is what each of them has to end in good order: QEMU marks bitmaps of
// the images that it has open.
const leftTime = 2 * time.Second

// remains is a machine that an earlier runner, which was killed, has left
// running.
type remains struct {
	record record
	dir    string // the runtime directory
	qemu   *process.Process
}

// StartedBy returns the runtime directory of the VM that a configuration file
// has started, as the record in it says; empty if there is none. It is for a
// file that doesn't say any more where the VM is. The VM may have ended.
func StartedBy(file string) string {
	_, dir := recordBy(file)
	return dir
}

// Left returns the process number of the QEMU of a VM, and the configuration file
// that has started it, if it runs, with or without a runner; else 0.
func Left(runtimeDir string) (pid int, file string) {
	var r record
	there, err := readJSON(filepath.Join(runtimeDir, recordFile), &r)
	if err != nil || !there || !r.QEMU.Runs() {
		return 0, ""
	}
	return r.QEMU.PID, r.ConfigFile
}

// recordBy returns the record of the VM that a configuration file has started,
// and where it is; nil if there is none.
func recordBy(file string) (*record, string) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, ""
	}
	for _, at := range config.Machines(config.HostEnv(), monitorSocket) {
		var r record
		there, err := readJSON(filepath.Join(at.RuntimeDir, recordFile), &r)
		if err == nil && there && r.ConfigFile == file {
			return &r, at.RuntimeDir
		}
	}
	return nil, ""
}

// runningBy returns the VM that was started by a configuration file, and may
// run; nil if there is none. The file has faults now, so it doesn't say where
// the VM is.
func runningBy(ctx context.Context, file string) *VM {
	r, dir := recordBy(file)
	if r == nil {
		return nil
	}
	vm, err := r.vm(context.WithoutCancel(ctx), dir)
	if err != nil {
		return nil
	}
	return vm
}

// takeMachine takes the lock of the machine. If a process of an earlier runner
// has it, there are two cases: the guest has begun to run, and the machine is
// returned; or QEMU was only being started, or has ended, and what is left of it
// is ended.
func (m *run) takeMachine(ctx context.Context) (*remains, error) {
	held, err := lock.Open(filepath.Join(m.vm.DataDir, lock.MachineFile))
	if err != nil {
		return nil, err
	}
	m.lock = held
	m.undo.add("lock of the machine", func() error { return lock.Release(held) })
	// Also if the VM is to be ended: what is there has to be known for that.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), remainsTime)
	defer cancel()
	for {
		free, err := lock.Try(held)
		if free || err != nil {
			return nil, err
		}
		found, err := m.findRemains()
		if found != nil || err != nil {
			return found, err
		}
		if err := m.endRemains(ctx); err != nil {
			return nil, err
		}
	}
}

// findRemains returns the machine that runs; nil if there is none: what has the
// lock never let its guest run, or outlived QEMU. Whenever that isn't sure there
// is an error, for what is left is ended.
func (m *run) findRemains() (*remains, error) {
	dir, ran := linkedRuntime(m.vm.DataDir, m.vm.RuntimeDir)
	found := &remains{dir: dir}
	path := filepath.Join(dir, recordFile)
	there, err := readJSON(path, &found.record)
	if err != nil {
		return nil, err
	}
	if there && found.record.DataDir != m.vm.DataDir {
		there = m.hasLocked(found.record.QEMU) // the same directory by another path
	}
	if !there && ran {
		return nil, fmt.Errorf("the VM is running, but cannot be adopted: its record %s is gone; SIGTERM ends its processes: %s", path, m.holders())
	}
	if !there {
		return nil, nil
	}
	if found.record.Version != recordVersion {
		return nil, fmt.Errorf("the VM was started by another version of this program: %s has version %d, want %d; "+
			"stop the VM with that version", path, found.record.Version, recordVersion)
	}
	found.qemu, err = process.Adopt(found.record.QEMU, "qemu", m.log)
	if errors.Is(err, os.ErrProcessDone) {
		return nil, nil
	}
	return found, err
}

// hasLocked reports whether a process has the lock of the machine.
func (m *run) hasLocked(id process.ID) bool {
	holders, err := process.Holders(m.lock.Name())
	return err == nil && slices.Contains(holders, id)
}

// holders names the processes that have the lock of the machine.
func (m *run) holders() string {
	holders, err := process.Holders(m.lock.Name())
	if err != nil || len(holders) == 0 {
		return "none that can be seen from here"
	}
	var pids []string
	for _, id := range holders {
		pids = append(pids, strconv.Itoa(id.PID))
	}
	return strings.Join(pids, ", ")
}

// endRemains ends the processes that have the lock of the machine: its guest
// has never run, or QEMU has ended without them.
func (m *run) endRemains(ctx context.Context) error {
	holders, err := process.Holders(m.lock.Name())
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		return m.mayEnd(ctx)
	}
	for _, id := range holders {
		left, err := process.Adopt(id, "left process", m.log)
		if errors.Is(err, os.ErrProcessDone) {
			continue
		}
		if err != nil {
			return err
		}
		m.log.Warn("ending a process that an earlier runner left", "pid", id.PID)
		if err := left.Terminate(ctx, leftTime); err != nil {
			return err
		}
	}
	return nil
}

// mayEnd gives a process that is about to end, and can't be found any more, the
// time to do so.
func (m *run) mayEnd(ctx context.Context) error {
	select {
	case <-time.After(lock.Tick):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: a process that is not visible from here, of another user, container or host, holds the lock %s", lock.ErrHeld, m.lock.Name())
	}
}

// adopt carries on a machine that runs, also if it is only to be ended in good
// order. Whatever goes wrong, the machine keeps running.
func (m *run) adopt(ctx context.Context, found *remains, opts Options) (err error) {
	defer func() {
		if err != nil {
			m.undo.spareMachine()
			err = fmt.Errorf("the VM is running (process %d), but cannot be adopted: %w", found.qemu.Pid(), err)
		}
	}()
	untilStopped := ctx
	ctx = context.WithoutCancel(ctx)
	if m.vm, err = found.record.vm(ctx, found.dir); err != nil {
		return err
	}
	if _, err := readJSON(filepath.Join(found.dir, progressFile), &m.progress); err != nil {
		m.log.Warn("the progress of the earlier runner is unknown", "err", err)
	}
	if err := durable.RemoveTemporary(m.vm.DataDir, m.vm.dataFiles()...); err != nil {
		m.log.Warn("files that the earlier runner left half written are kept", "err", err)
	}
	m.qemu, m.adopted = found.qemu, true
	if err := linkRuntime(m.vm.DataDir, found.dir); err != nil {
		m.log.Warn("the runtime directory is not recorded: if the configuration moves it, the VM will not be found", "err", err)
	}
	m.noteRuntimeDir()
	m.noteSockets()
	m.adoptTaps(ctx)
	if err := m.adoptHelpers(ctx, found.record.Helpers); err != nil {
		return err
	}
	m.noteProcess(ctx, m.qemu)
	m.wanted = m.lastWanted()
	m.drive(untilStopped, nil)
	m.publish(m.description(opts.Version))
	if err := m.serve(ctx); err != nil {
		return err
	}
	m.driver.Adopt(machine.Booting{
		Began: found.record.Began, Reason: vmstatus.ReasonRunnerRestarted, Resource: m.vm.Config.Resource,
	}, m.server.Event)
	if err := m.takeConsole(); err != nil {
		m.log.Error("the guest has no console", "err", err)
	}
	if opts.OnPaused != nil {
		if err := opts.OnPaused(ctx, m.vm); err != nil {
			return err
		}
	}
	m.log.Info("adopted", "state", "Booting", "pid", m.qemu.Pid(), "vmType", m.vm.Plan.Type, "uuid", m.vm.Spec.UUID)
	if stop := m.progress.Stop; stop != nil {
		m.cancel(errors.New(stop.Cause))
	}
	return nil
}

// adoptHelpers finds the helpers that still run; the driver reports the others.
func (m *run) adoptHelpers(ctx context.Context, ids []process.ID) error {
	if len(ids) != len(m.vm.Plan.Helpers) {
		return fmt.Errorf("the record has %d helpers, but the plan has %d", len(ids), len(m.vm.Plan.Helpers))
	}
	for i, id := range ids {
		name := m.vm.Plan.Helpers[i].Name
		h, err := process.Adopt(id, name, m.log)
		if errors.Is(err, os.ErrProcessDone) {
			continue
		}
		if err != nil {
			return err
		}
		m.helpers = append(m.helpers, h)
		m.noteProcess(ctx, h)
	}
	return nil
}

// adoptTaps makes again what the taps had from the earlier runner. Without it
// the guest has no network, which is no reason to leave it alone.
func (m *run) adoptTaps(ctx context.Context) {
	for _, t := range m.vm.Plan.Taps {
		tap, err := adoptTap(ctx, t, m.vm.Spec.UUID, m.log)
		if err != nil {
			m.log.Error("a network of the VM does not work", "tap", t.Name, "err", err)
			continue
		}
		m.undo.addMachine("tap "+t.Name, tap.Close)
	}
}
