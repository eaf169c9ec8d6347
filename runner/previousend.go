package runner

import (
	"context"
	"time"

	"vmop/runner/adopt"
	"vmop/runner/adopt/record"
	"vmop/runner/launch/cleanup"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// noteEnd records how a VM ended, for users. In a pod it only records an end if the guest may have to stay off.
// Without that record, a restarted runner in the pod starts the VM again.
func (m *run) noteEnd(o *Outcome) {
	pod := ""
	if m.opts.Reporter != nil {
		if pod = m.opts.Reporter.PodUID(); pod == "" || !o.awaitsStop(m.opts) {
			return
		}
	}
	end := record.End{
		Pod: pod, At: time.Now(), Began: m.began, UUID: m.vm.Spec.UUID, VMType: m.vm.Plan.Type,
		Cause: o.Cause, Reason: o.Reason, Exit: o.Exit, Note: o.Note,
	}
	if err := end.Write(m.vm.DataDir); err != nil {
		m.log.Warn("the end of the guest is not recorded", "err", err)
		return
	}
	if pod != "" {
		o.noted = record.EndFile(m.vm.DataDir)
	}
}

// endedBefore returns how the guest ended that ran in this pod, unless a manager has since decided whether the
// guest should run again.
func (m *run) endedBefore() (o Outcome, ended bool) {
	if m.opts.Reporter == nil || m.opts.Reporter.PodUID() == "" {
		return o, false
	}
	end, there, err := record.ReadEnd(m.vm.DataDir)
	if err != nil {
		m.log.Warn("it is unknown whether the guest has ended in this pod", "err", err)
	}
	if err != nil || !there || end.Pod != m.opts.Reporter.PodUID() {
		return o, false
	}
	o.Cause, o.Reason, o.Exit, o.noted = end.Cause, end.Reason, end.Exit, record.EndFile(m.vm.DataDir)
	m.publishStatus(status.Described{
		Name: m.vm.Config.VM.Name, UUID: end.UUID, VMType: end.VMType,
		Runner: m.thisRunner(),
	},
		status.Began(end.Began), status.Read{Generation: m.progress.Generation, Resource: m.vm.Config.Resource},
		o.endedStatus())
	m.log.Info("the guest has ended in this pod; it is not started again", "outcome", o.String())
	return o, true
}

// hasLeft returns the end of a guest after its move to another pod. A restarted runner in this pod continues to
// wait for the pod's deletion. If it is uncertain whether the guest was moved, the other runner reports its end.
func (m *run) hasLeft() (o Outcome, ended bool) {
	if m.opts.Reporter == nil {
		return o, false
	}
	note, err := handover.Read(m.vm.DataDir)
	if err != nil {
		return o, false // the start fails with this error
	}
	switch note.Record {
	case migrate.Moved:
		o.Cause = vmstatus.CauseMoved
		m.publishStatus(o.endedStatus())
		m.log.Info("the guest was moved to another pod; it is not started here")
		return o, true
	case migrate.Released:
		m.publishStatus(status.Moves{Migration: &status.Migration{
			Direction: status.Leaving, Address: note.Keys.Address,
			Progress: vmstatus.Progress{Stage: string(migrate.Asking)},
		}})
	}
	return o, false
}

// endedUnseen returns how an earlier runner's machine ended, if QEMU exited normally while no runner existed. As
// far as the exit code shows, the guest has shut itself down.
func (m *run) endedUnseen(ctx context.Context) (o Outcome, ended bool) {
	found := adopt.Ended(ctx, m.vm, m.log)
	if found == nil {
		return o, false
	}
	m.vm, m.began = found.VM, found.Began
	m.readProgress()
	o.Cause = vmstatus.CauseGuest
	if ctx.Err() != nil || m.progress.Stop != nil {
		o.Cause = vmstatus.CauseAsked
	}
	m.undo.AddRuntimeDir(m.vm)
	m.undo.AddSockets(m.vm)
	if err := cleanup.RemoveHalfWritten(m.vm); err != nil {
		m.log.Warn("files that the earlier runner left half written are kept", "err", err)
	}
	if err := m.serveMachine(context.WithoutCancel(ctx)); err != nil { // also removes the killed runner's files
		m.log.Warn("the control interface of the VM that has ended is not available", "err", err)
	}
	m.publishStatus(m.describeVM(), status.Began(m.began), status.Read{
		Generation: m.progress.Generation,
		Resource:   m.vm.Config.Resource,
	}, o.endedStatus())
	m.noteEnd(&o)
	m.log.Info("QEMU has ended normally while no runner was running; the VM is not started again", "outcome", o.String())
	return o, true
}

// readProgress reads the progress of the earlier runner.
func (m *run) readProgress() {
	if err := record.ReadProgress(m.vm.RuntimeDir, &m.progress); err != nil {
		m.log.Warn("the progress of the earlier runner is unknown", "err", err)
	}
}
