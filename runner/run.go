package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"vmop/runner/disks"
	"vmop/runner/lock"
	"vmop/runner/machine"
	"vmop/runner/service"
	"vmop/runner/status"
	"vmop/vmspec"
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
	vm, fault := open(opts.ConfigFile)
	if fault == nil {
		fault = opts.PolicyFault
	}
	if fault == nil {
		fault = opts.Policy.CheckDirectories(vm.DataDir, vm.RuntimeDir)
	}
	if fault != nil {
		if vm = runningBy(ctx, opts.ConfigFile); vm == nil {
			reportFault(ctx, opts.Reporter, fault)
			return Outcome{}, fault
		}
	}
	log = log.With("vm", vm.Config.VM.Name)
	for _, w := range vm.Warnings {
		log.Warn("configuration", "warning", w)
	}
	m := &run{
		vm: vm, log: log, vmTypes: opts.VMTypes, policy: opts.Policy, policyFault: opts.PolicyFault,
		reread: opts.Reread, grace: opts.GracePeriod, tracker: newTracker(vm), undo: &cleanup{log: log},
		progress: machine.Progress{ResetCounter: vm.Config.ResetCounter, Generation: max(vm.Config.Generation, 1)},
	}
	m.file = filepath.Join(vm.folder, filepath.Base(opts.ConfigFile))
	m.service = service.New(opts.Manager, log)
	informed := m.service.Inform(ctx, m.tracker)
	ctx, m.cancel = context.WithCancelCause(ctx)
	result, err = m.run(ctx, opts, fault)
	// This is not deferred: a runner that panics leaves the machine to the next.
	m.publishEnd(result, err)
	undoErr := m.undo.run()
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
func (m *run) run(ctx context.Context, opts Options, fault error) (Outcome, error) {
	held, err := lock.Runner(m.vm.DataDir)
	if err != nil {
		return Outcome{}, err
	}
	m.undo.add("lock", func() error { return lock.Release(held) })
	found, err := m.takeMachine(ctx)
	if found == nil && err == nil {
		if o, ended := m.endedBefore(opts); ended {
			m.report(ctx, opts)
			return o, nil
		}
		if o, ended := m.endedUnseen(ctx, opts); ended {
			m.report(ctx, opts)
			return o, nil
		}
	}
	if found == nil {
		m.report(ctx, opts)
	}
	switch {
	case err != nil:
	case found != nil:
		if fault != nil {
			m.log.Error("the configuration cannot be used; the running VM is adopted as it is", "err", fault)
		}
		err = m.adopt(ctx, found, opts)
		m.report(ctx, opts) // now that it is known how the VM is
	case fault != nil:
		err = fault
	default:
		if err = m.create(ctx, opts); err != nil {
			err = m.stopped(ctx, err)
		}
	}
	if err != nil {
		return Outcome{}, err
	}
	result := m.supervise(ctx)
	m.noteEnd(opts, &result)
	return result, nil
}

// create starts the machine, up to the point where its guest runs.
func (m *run) create(ctx context.Context, opts Options) error {
	vm := m.vm
	if err := m.takeRuntimeDir(); err != nil {
		return err
	}
	if err := removeIfThere(filepath.Join(vm.DataDir, endedFile)); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	m.seeding.Go(m.writeSeed) // while the VM type is evaluated
	if err := vm.plan(ctx, opts, true); err != nil {
		return err
	}
	if err := vm.Config.Locate(append(disks.MakeImages(vm.Spec.Drives, m.log),
		vmspec.MissingFiles(vm.Spec, fileMode)...)); err != nil {
		return err
	}
	m.publish(status.Entered{State: vmstatus.StateStarting}, m.description(opts.Version))
	if why := vm.Emulated(); why != "" {
		m.log.Info("without KVM the guest is slow; accelerator: auto is tcg here", "because", why)
	}
	m.log.Info("starting", "state", "Starting", "vmType", vm.Plan.Type, "uuid", vm.Spec.UUID)
	if err := m.start(ctx); err != nil {
		return err
	}
	m.wanted = vm
	if err := m.boot(ctx, opts); err != nil {
		return err
	}
	m.log.Info("booting", "state", "Booting")
	return nil
}

// stopped makes clear that a start was given up because of the user.
func (m *run) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return stoppedError{context.Cause(ctx)}
	}
	return err
}

// stoppedError is why a start was given up that had not failed.
type stoppedError struct{ cause error }

func (e stoppedError) Error() string {
	return "stopped while the VM was being started: " + e.cause.Error()
}

func (e stoppedError) Unwrap() error { return e.cause }

// keepPin stores the VM type and the machine version that this VM has proved
// to start with. A full disk must not end a VM that runs, so faults are logged.
func (m *run) keepPin(ctx context.Context) {
	err := errors.Join(m.vm.pin.write(m.vm.DataDir), m.keepMachine(ctx))
	if err != nil && ctx.Err() == nil {
		m.log.Warn("VM type is not pinned", "err", err)
	}
}

// keepMachine remembers which version the machine's alias stands for.
func (m *run) keepMachine(ctx context.Context) error {
	wanted := m.vm.Plan.MachineType()
	if wanted == "" || m.vm.pin.hasVersion(wanted) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	version, err := m.machineType(ctx)
	if err != nil {
		return err
	}
	return writeMachine(m.vm.DataDir, m.vm.pin.machines, wanted, version)
}

// supervise waits for the end of QEMU, and has the driver know what changes
// meanwhile. The end of ctx is a request to stop.
func (m *run) supervise(ctx context.Context) Outcome {
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var others sync.WaitGroup
	m.sizes = disks.New(m.vm.Spec.Drives, m.vm.Plan.Rules, m.log)
	others.Go(func() { m.sizes.Watch(following, m.driver.Sized) })
	others.Go(func() { newReader(m).run(following) })
	m.keepPin(following)
	result := Outcome{Outcome: <-m.outcome}
	cancel()
	others.Wait()
	if result.ExitCode() != 0 {
		result.Output = strings.TrimSpace(m.qemu.Tail())
	}
	return result
}

// ErrLocked says that the VM runs already.
var ErrLocked = lock.ErrHeld
