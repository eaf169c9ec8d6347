package runner

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"vmop/process"
	"vmop/runner/cleanup"
	"vmop/runner/control"
	"vmop/runner/disks"
	"vmop/runner/drive"
	"vmop/runner/handover"
	"vmop/runner/launch"
	"vmop/runner/lock"
	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/runner/service"
	"vmop/runner/snapshot"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// run is a VM from its start, or its adoption, to its end.
type run struct {
	opts      Options
	vm        *prepare.VM
	wanted    *prepare.VM // what it is to be when the driver begins
	log       *slog.Logger
	undo      *cleanup.List
	lock      *lock.Lock // of the machine; its processes inherit it
	processes *launch.Processes
	adopted   bool                // the machine was found running
	memory    process.MemoryGroup // of QEMU
	began     time.Time           // when the guest was let run
	progress  machine.Progress    // where the driver begins
	driver    *drive.Driver       // looks after the running machine
	snapshots *snapshot.Live
	moving    sync.Mutex                      // held while the guest is being moved to another runner
	source    atomic.Pointer[handover.Source] // by which it is; nil: it isn't
	reclaims  atomic.Bool                     // its target is said to be gone for good
	invited   invitation                      // for the source of a guest that is to come
	managed   bool                            // the manager can reach the runner, or can't
	cpus      int                             // that a guest has which comes from another runner; 0: as configured
	held      string                          // why the machine is held from the beginning; "" if it isn't
	ctx       context.Context                 // done when the VM is to be stopped
	outcome   chan machine.Outcome            // gets how it has ended
	sizes     *disks.Sizes

	directories *directoryWatch // looks after those of the running machine

	tracker *status.Tracker         // what is known, for others
	server  *control.Server         // where they ask
	spice   *control.SPICE          // who looks by it there
	barred  control.Barred          // from the control interface
	there   atomic.Bool             // the machine is, and the driver can be asked
	service *service.Service        // gets the status without asking
	cancel  context.CancelCauseFunc // ends the VM
}

// newTracker begins the status of a VM.
func newTracker(vm *prepare.VM) *status.Tracker {
	return status.NewTracker(time.Now, status.Described{Name: vm.Config.VM.Name, VMType: vm.Config.VMType})
}

// description is what doesn't change from the start on.
func (m *run) description() status.Described {
	return status.Described{
		Name: m.vm.Spec.Name, UUID: m.vm.Spec.UUID, VMType: m.vm.Plan.Type, Runner: m.thisRunner(),
		Emulated: m.vm.Emulated(), Unprotected: m.vm.Unprotected(),
	}
}

func (m *run) thisRunner() status.Runner {
	return status.Runner{Version: m.opts.Version, PID: os.Getpid(), Started: time.Now()}
}

// report has the cluster told how the VM is. Whoever calls it has the runner's lock:
// a second runner has nothing to say.
func (m *run) report(ctx context.Context) {
	if m.opts.Reporter != nil {
		m.opts.Reporter.Follow(ctx, m.tracker, m.vm.Config.Namespace)
	}
}

// reportFault has the cluster told why there is no VM.
func reportFault(ctx context.Context, opts Options, fault error) {
	if opts.Reporter == nil {
		return
	}
	tracker := status.NewTracker(time.Now, startFailed(fault))
	if opts.Receive != nil {
		_ = tracker.Update(isToCome()) // it can always be
	}
	opts.Reporter.Follow(ctx, tracker, "")
}

// startFailed is the end of a VM that never ran. A stop request is no failure.
func startFailed(err error) status.Entered {
	if errors.As(err, new(stoppedError)) {
		return status.Entered{State: vmstatus.StateStopped, Message: err.Error()}
	}
	reason := vmstatus.ReasonStartFailed
	if errors.As(err, new(*prepare.DataError)) {
		reason = vmstatus.ReasonDataMissing
	}
	return status.Entered{State: vmstatus.StateStopped, Reason: reason, Message: err.Error()}
}

// stoppedError is why a start was given up that had not failed.
type stoppedError struct{ cause error }

func (e stoppedError) Error() string {
	return "stopped while the VM was being started: " + e.cause.Error()
}

func (e stoppedError) Unwrap() error { return e.cause }

// publishEnd puts the end into the status, before the control interface closes.
func (m *run) publishEnd(result Outcome, err error) {
	if err != nil {
		m.publish(startFailed(err))
		return
	}
	m.publish(status.Entered{State: vmstatus.StateStopped}, result.ending())
}

// publish updates the status. A change of state that cannot be is a mistake of
// the runner; the log says so.
func (m *run) publish(updates ...status.Update) {
	if err := m.tracker.Update(updates...); err != nil {
		m.log.Warn("status", "err", err)
	}
}
