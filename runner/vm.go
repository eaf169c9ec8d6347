package runner

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"vmop/internal/childprocess"
	"vmop/runner/adopt/lock"
	"vmop/runner/control"
	"vmop/runner/disks"
	"vmop/runner/disks/snapshot"
	"vmop/runner/guest/agents"
	"vmop/runner/launch"
	"vmop/runner/launch/cleanup"
	"vmop/runner/machine"
	"vmop/runner/machine/drive"
	"vmop/runner/migrate/handover"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/runner/status/service"
	"vmop/vmstatus"
	"vmop/vmtypes"
)

// run is a VM from its start, or its adoption, to its end.
type run struct {
	opts      Options
	vm        *prepare.VM
	wanted    *prepare.VM // the wanted configuration when the driver starts
	log       *slog.Logger
	undo      *cleanup.List
	lock      *lock.Lock // of the machine; its processes inherit it
	processes *launch.Processes
	adopted   bool                     // the machine was found running
	memory    childprocess.MemoryGroup // of QEMU
	began     time.Time                // when the guest was started
	progress  machine.Progress         // where the driver starts
	driver    *drive.Driver            // controls the running machine
	agents    *agents.Agents           // communicates with the agents in the guest
	cards     *cards                   // of the running machine
	snapshots *snapshot.Live
	moving    sync.Mutex                      // held while the guest is being moved to another runner
	source    atomic.Pointer[handover.Source] // of the current move; nil: no move
	reclaims  atomic.Bool                     // a user has stated that the target is gone for good
	invited   invitation                      // for the source of an expected guest
	managed   bool                            // serveManager was called, successfully or not
	cpus      int                             // CPUs of a guest that comes from another runner; 0: as configured
	held      string                          // why the machine is held from the beginning; "": not held
	ctx       context.Context                 // done when the VM should stop
	outcome   chan machine.Outcome            // receives the outcome
	sizes     *disks.Sizes

	directories *directoryWatch // watches the directories of the running machine

	tracker *status.Tracker         // the VM's status, for its readers
	server  *control.Server         // the control interface
	spice   *control.SPICE          // viewers connected through it
	barred  control.Barred          // processes that may not use the control interface
	there   atomic.Bool             // the machine exists, and the driver can be queried
	service *service.Service        // is notified of the status
	cancel  context.CancelCauseFunc // ends the VM
}

// newTracker returns a tracker with the initial status of a VM.
func newTracker(vm *prepare.VM) *status.Tracker {
	return status.NewTracker(time.Now, status.Described{Name: vm.Config.VM.Name, VMType: vm.Config.VMType})
}

// describeVM returns the part of the status that is constant after the start.
func (m *run) describeVM() status.Described {
	d := status.Described{
		Name: m.vm.Spec.Name, UUID: m.vm.Spec.UUID, VMType: m.vm.Plan.Type, Runner: m.thisRunner(),
		VMTypes:  vmtypes.ArchivedGeneration(m.vm.Pin.Archive),
		Emulated: m.vm.Emulated(), Unprotected: m.vm.Unprotected(),
	}
	for _, w := range m.vm.Plan.Warnings {
		d.Warnings = append(d.Warnings, w.Path+" "+w.Message)
	}
	return d
}

func (m *run) thisRunner() status.Runner {
	return status.Runner{Version: m.opts.Version, PID: os.Getpid(), Started: time.Now()}
}

// reportToCluster starts to report the VM's status to the cluster. The caller must hold the runner's lock, because a
// second runner has no VM to report.
func (m *run) reportToCluster(ctx context.Context) {
	if m.opts.Reporter != nil {
		m.opts.Reporter.Follow(ctx, m.tracker, m.vm.Config.Namespace)
	}
}

// reportFault reports to the cluster why the VM does not exist.
func reportFault(ctx context.Context, opts Options, fault error) {
	if opts.Reporter == nil {
		return
	}
	tracker := status.NewTracker(time.Now, startFailed(fault))
	if opts.Receive != nil {
		_ = tracker.Update(isToCome()) // every state accepts it
	}
	opts.Reporter.Follow(ctx, tracker, "")
}

// startFailed returns the final state of a VM that never ran. A stop request is not a failure.
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

// stoppedError is the error of a start that was cancelled by a stop request.
type stoppedError struct{ cause error }

func (e stoppedError) Error() string {
	return "stopped while the VM was being started: " + e.cause.Error()
}

func (e stoppedError) Unwrap() error { return e.cause }

// publishEnd publishes the end in the status, before the control interface closes.
func (m *run) publishEnd(result Outcome, err error) {
	if err != nil {
		m.publishStatus(startFailed(err))
		return
	}
	m.publishStatus(status.Entered{State: vmstatus.StateStopped}, result.endedStatus())
}

// publishStatus updates the status. An impossible change of state is a bug in the runner, and is logged.
func (m *run) publishStatus(updates ...status.Update) {
	if err := m.tracker.Update(updates...); err != nil {
		m.log.Warn("status", "err", err)
	}
}
