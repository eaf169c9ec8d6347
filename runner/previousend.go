package runner

import (
	"context"
	"time"

	"vmop/runner/adopt"
	"vmop/runner/cleanup"
	"vmop/runner/handover"
	"vmop/runner/migrate"
	"vmop/runner/record"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// noteEnd notes how a VM has ended, for people; in a pod how a guest has that may have to stay off. Where
// that can't be noted, a runner that is killed there starts the VM again.
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

// endedBefore returns how the guest has ended that ran in this pod, if no manager has
// decided since whether it is to run again.
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
	m.publish(status.Described{
		Name: m.vm.Config.VM.Name, UUID: end.UUID, VMType: end.VMType,
		Runner: m.thisRunner(),
	},
		status.Began(end.Began), status.Read{Generation: m.progress.Generation, Resource: m.vm.Config.Resource},
		o.ending())
	m.log.Info("the guest has ended in this pod; it is not started again", "outcome", o.String())
	return o, true
}

// hasLeft returns the end of a guest that has been moved to another pod; a runner that is killed and started again in
// this one waits for the pod's deletion, as that one did. A guest that may have been moved is another runner's to
// report.
func (m *run) hasLeft() (o Outcome, ended bool) {
	if m.opts.Reporter == nil {
		return o, false
	}
	note, err := handover.Read(m.vm.DataDir)
	if err != nil {
		return o, false // the start fails by it
	}
	switch note.Record {
	case migrate.Moved:
		o.Cause = vmstatus.CauseMoved
		m.publish(o.ending())
		m.log.Info("the guest was moved to another pod; it is not started here")
		return o, true
	case migrate.Released:
		m.publish(status.Moves{Migration: &status.Migration{
			Direction: status.Leaving, Stage: string(migrate.Asking), Address: note.Keys.Address,
		}})
	}
	return o, false
}

// endedUnseen returns how the machine has ended that an earlier runner has left, if
// QEMU ended in good order while no runner was there: then the guest has shut itself
// down, as far as an exit code tells.
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
	if err := m.serve(context.WithoutCancel(ctx)); err != nil { // and leaves nothing of the killed runner's
		m.log.Warn("the control interface of the VM that has ended is not available", "err", err)
	}
	m.publish(m.description(), status.Began(m.began), status.Read{
		Generation: m.progress.Generation,
		Resource:   m.vm.Config.Resource,
	}, o.ending())
	m.noteEnd(&o)
	m.log.Info("QEMU has ended in good order while no runner was there; the VM is not started again", "outcome", o.String())
	return o, true
}

// readProgress reads how far the earlier runner had come.
func (m *run) readProgress() {
	if err := record.ReadProgress(m.vm.RuntimeDir, &m.progress); err != nil {
		m.log.Warn("the progress of the earlier runner is unknown", "err", err)
	}
}
