package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"vmop/internal/childprocess"
	"vmop/netsetup"
	"vmop/runner/adopt"
	"vmop/runner/adopt/lock"
	"vmop/runner/adopt/record"
	"vmop/runner/config/follow"
	"vmop/runner/control"
	"vmop/runner/disks"
	"vmop/runner/disks/snapshot"
	"vmop/runner/guest/agents"
	"vmop/runner/launch"
	"vmop/runner/launch/cleanup"
	"vmop/runner/machine"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/runner/status/service"
	"vmop/vmstatus"
)

// Run runs the VM until it ends. When ctx is done, Run asks the guest to shut down, and ends the VM by force if
// it is still running after powerdownTimeout.
//
// An error means that the VM could not be started. In that case Run has ended everything that it had started.
// Otherwise the outcome describes how the VM ended.
func Run(ctx context.Context, opts Options) (result Outcome, err error) {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log.Info("initializing", "state", "Initializing", "config", opts.ConfigFile)
	vm, fault := prepare.Open(opts.ConfigFile)
	if fault == nil {
		fault = opts.PolicyFault
	}
	if fault == nil {
		fault = opts.Policy.CheckDirectories(vm.DataDir, vm.RuntimeDir)
	}
	if fault != nil {
		if vm = record.RunningBy(ctx, opts.ConfigFile); vm == nil {
			reportFault(ctx, opts, fault)
			noteFault(opts.ConfigFile, fault, log)
			return Outcome{}, fault
		}
	}
	log = log.With("vm", vm.Config.VM.Name)
	for _, w := range vm.Warnings {
		log.Warn("configuration", "warning", w)
	}
	m := &run{
		opts: opts, vm: vm, log: log, tracker: newTracker(vm), undo: cleanup.New(log),
		spice:    control.NewSPICE(),
		progress: machine.Progress{ResetCounter: vm.Config.ResetCounter, Generation: max(vm.Config.Generation, 1)},
	}
	m.service = service.New(opts.Manager, log)
	informed := m.service.Inform(ctx, m.tracker)
	ctx, m.cancel = context.WithCancelCause(ctx)
	m.ctx = ctx
	result, err = m.runUntilEnd(ctx, fault)
	// This is not deferred, so that a runner that panics leaves the machine to the next runner.
	m.publishEnd(result, err)
	undoErr := m.undo.Run()
	if err == nil && undoErr != nil {
		err = fmt.Errorf("clean up: %w", undoErr)
	}
	if err == nil {
		log.Info("stopped", "state", "Stopped", "outcome", result.String())
	}
	m.cancel(nil)
	informed()
	return result, err
}

// runUntilEnd adopts or creates the machine, and returns when it has ended. fault is an error in the configuration. It
// prevents the creation of a machine, but not its adoption.
func (m *run) runUntilEnd(ctx context.Context, fault error) (Outcome, error) {
	held, err := lock.Runner(m.vm.DataDir)
	if err != nil {
		return Outcome{}, err
	}
	m.undo.Add("lock", held.Release)
	found, err := m.findMachine(ctx)
	receives := false
	if found == nil && err == nil {
		receives, err = m.isReceiving()
	}
	if found == nil && err == nil && !receives {
		if o, ended := m.hasLeft(); ended {
			m.reportToCluster(ctx)
			return o, nil
		}
		if o, ended := m.endedBefore(); ended {
			m.reportToCluster(ctx)
			return o, nil
		}
		if o, ended := m.endedUnseen(ctx); ended {
			m.reportToCluster(ctx)
			return o, nil
		}
	}
	if found == nil {
		m.reportToCluster(ctx)
	}
	switch {
	case err != nil:
	case found != nil:
		if fault != nil {
			m.log.Error("the configuration cannot be used; the running VM is adopted as it is", "err", fault)
		}
		err = m.adoptMachine(ctx, found)
		m.reportToCluster(ctx) // now that the state of the VM is known
	case fault != nil:
		err = fault
		m.noteFailure(err)
	case receives:
		if err = m.receiveGuest(ctx); err != nil {
			err = m.stoppedError(ctx, err)
		}
	default:
		if err = m.createMachine(ctx); err != nil {
			err = m.stoppedError(ctx, err)
			m.noteFailure(err)
		}
		m.answerFinished(ctx, nil)
	}
	if err != nil {
		return Outcome{}, err
	}
	if err := record.Reserve(m.vm.DataDir); err != nil {
		m.log.Warn("the end of the guest may not be recorded", "err", err)
	}
	result := m.superviseQEMU(ctx)
	m.noteEnd(&result)
	return result, nil
}

// findMachine takes the machine's lock, or returns the machine that holds it.
func (m *run) findMachine(ctx context.Context) (*adopt.Remains, error) {
	held, err := lock.Machine(m.vm.DataDir)
	if err != nil {
		return nil, err
	}
	m.lock = held
	m.undo.Add("lock of the machine", held.Release)
	if note, err := handover.Read(m.vm.DataDir); err != nil {
		return nil, err
	} else if note.Record == migrate.Expecting || note.Record == migrate.Given {
		return nil, adopt.End(ctx, m.vm, held, m.log) // its guest never ran here
	}
	return adopt.Find(ctx, m.vm, held, m.log)
}

// createMachine starts the machine, and returns when its guest runs.
func (m *run) createMachine(ctx context.Context) error {
	vm := m.vm
	begun, err := launch.Begin(vm, m.lock, m.undo, m.log)
	if err != nil {
		return err
	}
	if err := m.notHere(ctx); err != nil {
		return err
	}
	if err := snapshot.Recover(ctx, vm.DataDir); err != nil {
		return err
	}
	err = errors.Join(cleanup.Remove(record.EndFile(vm.DataDir)), record.ForgetStartFailure(vm.DataDir))
	if err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	if err := vm.Complete(ctx, m.opts.Options, true); err != nil {
		return err
	}
	for _, w := range vm.OptionWarnings() {
		m.log.Warn("configuration", "warning", w)
	}
	if err := m.examineFiles(); err != nil {
		return err
	}
	if err := m.checkMedia(ctx); err != nil {
		return err
	}
	if err := m.makeDisks(ctx); err != nil {
		return err
	}
	if err := vm.Config.Locate(append(disks.MakeImages(vm.Spec.Drives, m.log), vm.MissingFiles()...)); err != nil {
		return err
	}
	m.publishStatus(status.Entered{State: vmstatus.StateStarting}, m.describeVM())
	for _, note := range vm.Notes() {
		level := slog.LevelInfo
		if note.Warning {
			level = slog.LevelWarn
		}
		m.log.Log(ctx, level, note.Text)
	}
	m.log.Info("starting", "state", "Starting", "vmType", vm.Plan.Type, "uuid", vm.Spec.UUID)
	if m.processes, err = begun.Start(ctx); err != nil {
		return err
	}
	m.wanted = vm
	if err := m.bootGuest(ctx); err != nil {
		return err
	}
	m.log.Info("booting", "state", "Booting")
	return nil
}

// adoptMachine carries on a running machine, even if that machine only has to be stopped. On an error the machine keeps
// running.
func (m *run) adoptMachine(ctx context.Context, found *adopt.Remains) (err error) {
	defer func() {
		if err != nil {
			m.undo.SpareMachine()
			err = fmt.Errorf("the VM is running (process %d), but cannot be adopted: %w", found.Pid(), err)
		}
	}()
	taken, err := found.TakeOver(ctx, m.undo, m.log)
	if err != nil {
		return err
	}
	m.vm, m.wanted, m.processes, m.began, m.adopted = taken.VM, taken.Wanted, taken.Processes, taken.Began, true
	m.readProgress()
	return m.carryOnMoving(ctx)
}

// stoppedError returns a stoppedError if a stop request interrupted the start, and otherwise err.
func (m *run) stoppedError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return stoppedError{context.Cause(ctx)}
	}
	return err
}

// keepPin stores the VM type and the machine version of this VM after a successful start. Errors are only logged,
// because a full disk must not end a running VM.
func (m *run) keepPin(ctx context.Context) {
	err := m.vm.Pin.Keep(m.vm.DataDir)
	if err == nil { // a version without the type would look like a lost type
		err = m.keepMachine(ctx)
	}
	if err != nil && ctx.Err() == nil {
		m.log.Warn("VM type is not pinned", "err", err)
	}
}

// keepMachine records the version that the machine's alias stands for.
func (m *run) keepMachine(ctx context.Context) error {
	wanted := m.vm.Plan.MachineType()
	if wanted == "" || m.vm.Pin.HasVersion(wanted) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	version, err := m.machineType(ctx)
	if err != nil {
		return err
	}
	return m.vm.Pin.KeepMachine(m.vm.DataDir, wanted, version)
}

// leaveTime is how long file watchers may take to stop after the VM has ended.
const leaveTime = 5 * time.Second

// superviseQEMU waits for the end of QEMU, and passes changes of files and sizes to the driver in the meantime. When
// ctx is done, the VM is stopped.
func (m *run) superviseQEMU(ctx context.Context) Outcome {
	if m.directories == nil { // a guest that came from another runner
		m.keepDirectories()
	}
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var others sync.WaitGroup
	m.sizes = disks.New(m.vm.Spec.Drives, m.vm.Plan.Rules, m.log)
	m.keepOrigins()
	others.Go(func() { m.sizes.Watch(following, m.driver.Sized, m.driver.DisksDiffer) })
	others.Go(func() { m.followConfiguration(following) })
	others.Go(func() { m.directories.watchDirectories(following) })
	others.Go(func() { agents.AwaitBoot(following, m.tracker, m.vm.Plan.Socket(agents.GuestRole) != "") })
	if m.adopted {
		others.Go(func() { m.snapshots.CleanUp(following) })
	}
	m.keepPin(following)
	result := Outcome{Outcome: <-m.outcome}
	switch moved, reclaimed := m.handedOver(); {
	case reclaimed:
		result.Note = handover.ErrReclaimed.Error()
	case moved && result.Cause == vmstatus.CauseKilled && result.Exit == (childprocess.Exit{}):
		result.Cause, result.Reason = vmstatus.CauseMoved, "" // the migration ended it
	}
	if result.Note == "" && result.Cause == vmstatus.CauseKilled {
		result.Note, _ = m.memory.OutOfMemory()
	}
	cancel()
	left := make(chan struct{})
	go func() {
		others.Wait()
		close(left)
	}()
	select {
	case <-left:
	case <-time.After(leaveTime):
		m.log.Warn("the file system of the configuration or of a disk does not answer; it is not waited for")
	}
	if result.ExitCode() != 0 {
		result.Output = strings.TrimSpace(m.processes.QEMU.Tail())
	}
	return result
}

// ErrLocked is returned when the VM is already running.
var ErrLocked = lock.ErrHeld

// followConfiguration watches the configuration and applies its changes.
func (m *run) followConfiguration(ctx context.Context) {
	follow.Run(ctx, follow.Config{
		Running: m.vm, Wanted: m.wanted, Adopted: m.adopted, Options: m.opts.Options, PolicyFault: m.opts.PolicyFault,
		Addresses: lookUpAddresses(),
		Reread:    m.opts.Reread, Driver: m.driver, Sizes: m.sizes, Service: m.service, Log: m.log,
	})
}

// lookUpAddresses returns how to find addresses in this network namespace.
func lookUpAddresses() prepare.Addresses {
	return prepare.Addresses{Own: netsetup.OwnAddress, Guest: netsetup.GuestBehind}
}
