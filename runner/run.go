package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"vmop/process"
	"vmop/runner/adopt"
	"vmop/runner/agents"
	"vmop/runner/cleanup"
	"vmop/runner/control"
	"vmop/runner/disks"
	"vmop/runner/follow"
	"vmop/runner/handover"
	"vmop/runner/launch"
	"vmop/runner/lock"
	"vmop/runner/machine"
	"vmop/runner/migrate"
	"vmop/runner/prepare"
	"vmop/runner/record"
	"vmop/runner/service"
	"vmop/runner/snapshot"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// Run runs the VM until it ends. When ctx is done, the guest is asked to shut
// down, and the VM is ended by force when it doesn't within powerdownTimeout.
//
// An error means that the VM could not be started; everything that was started
// has been ended again then. Otherwise the outcome says how the VM ended.
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
	result, err = m.run(ctx, fault)
	// This is not deferred: a runner that panics leaves the machine to the next.
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

// run takes the machine over, or creates it, and stays until it has ended. With
// a fault of the configuration there is nothing to be created by.
func (m *run) run(ctx context.Context, fault error) (Outcome, error) {
	held, err := lock.Runner(m.vm.DataDir)
	if err != nil {
		return Outcome{}, err
	}
	m.undo.Add("lock", held.Release)
	found, err := m.find(ctx)
	receives := false
	if found == nil && err == nil {
		receives, err = m.receives()
	}
	if found == nil && err == nil && !receives {
		if o, ended := m.hasLeft(); ended {
			m.report(ctx)
			return o, nil
		}
		if o, ended := m.endedBefore(); ended {
			m.report(ctx)
			return o, nil
		}
		if o, ended := m.endedUnseen(ctx); ended {
			m.report(ctx)
			return o, nil
		}
	}
	if found == nil {
		m.report(ctx)
	}
	switch {
	case err != nil:
	case found != nil:
		if fault != nil {
			m.log.Error("the configuration cannot be used; the running VM is adopted as it is", "err", fault)
		}
		err = m.adopt(ctx, found)
		m.report(ctx) // now that it is known how the VM is
	case fault != nil:
		err = fault
		m.noteFailure(err)
	case receives:
		if err = m.receive(ctx); err != nil {
			err = m.stopped(ctx, err)
		}
	default:
		if err = m.create(ctx); err != nil {
			err = m.stopped(ctx, err)
			m.noteFailure(err)
		}
		m.took(ctx, nil)
	}
	if err != nil {
		return Outcome{}, err
	}
	result := m.supervise(ctx)
	m.noteEnd(&result)
	return result, nil
}

// find takes the lock of the machine, or returns the machine that has it.
func (m *run) find(ctx context.Context) (*adopt.Remains, error) {
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

// create starts the machine, up to the point where its guest runs.
func (m *run) create(ctx context.Context) error {
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
	m.publish(status.Entered{State: vmstatus.StateStarting}, m.description())
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
	if err := m.boot(ctx); err != nil {
		return err
	}
	m.log.Info("booting", "state", "Booting")
	return nil
}

// adopt carries on a machine that runs, also if it is only to be ended in good
// order. Whatever goes wrong, the machine keeps running.
func (m *run) adopt(ctx context.Context, found *adopt.Remains) (err error) {
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

// stopped makes clear that a start was given up because of the user.
func (m *run) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return stoppedError{context.Cause(ctx)}
	}
	return err
}

// keepPin stores the VM type and the machine version that this VM has proved
// to start with. A full disk must not end a VM that runs, so faults are logged.
func (m *run) keepPin(ctx context.Context) {
	err := m.vm.Pin.Keep(m.vm.DataDir)
	if err == nil { // versions without the type would look like a type that was lost
		err = m.keepMachine(ctx)
	}
	if err != nil && ctx.Err() == nil {
		m.log.Warn("VM type is not pinned", "err", err)
	}
}

// keepMachine remembers which version the machine's alias stands for.
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

// leaveTime is how long those who read files may take to end with the VM.
const leaveTime = 5 * time.Second

// supervise waits for the end of QEMU, and has the driver know what changes
// meanwhile. The end of ctx is a request to stop.
func (m *run) supervise(ctx context.Context) Outcome {
	if m.directories == nil { // of a guest that has come from another runner
		m.keepDirectories()
	}
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var others sync.WaitGroup
	m.sizes = disks.New(m.vm.Spec.Drives, m.vm.Plan.Rules, m.log)
	m.keepOrigins()
	others.Go(func() { m.sizes.Watch(following, m.driver.Sized, m.driver.DisksDiffer) })
	others.Go(func() { m.follow(following) })
	others.Go(func() { m.directories.watch(following) })
	others.Go(func() { agents.AwaitBoot(following, m.tracker, m.vm.Plan.Socket(agents.GuestRole) != "") })
	if m.adopted {
		others.Go(func() { m.snapshots.CleanUp(following) })
	}
	m.keepPin(following)
	result := Outcome{Outcome: <-m.outcome}
	switch moved, reclaimed := m.handedOver(); {
	case reclaimed:
		result.Note = handover.ErrReclaimed.Error()
	case moved && result.Cause == vmstatus.CauseKilled && result.Exit == (process.Exit{}):
		result.Cause, result.Reason = vmstatus.CauseMoved, "" // it was ended by the migration
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

// ErrLocked says that the VM runs already.
var ErrLocked = lock.ErrHeld

// follow follows the configuration.
func (m *run) follow(ctx context.Context) {
	follow.Run(ctx, follow.Config{
		Running: m.vm, Wanted: m.wanted, Adopted: m.adopted, Options: m.opts.Options, PolicyFault: m.opts.PolicyFault,
		Reread: m.opts.Reread, Driver: m.driver, Sizes: m.sizes, Service: m.service, Log: m.log,
	})
}
