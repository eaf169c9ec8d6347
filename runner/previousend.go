package runner

import (
	"context"
	"path/filepath"
	"time"

	"vmop/durable"
	"vmop/process"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// endedFile in the data directory says that the guest has shut itself down that ran
// in a pod. The runner waits there for a stop request, and may be killed meanwhile,
// with its container or the whole node: started again in the same pod, it must not
// start the VM, but wait again. In another pod the note means nothing.
const endedFile = "ended.json"

// A lastEnd is what the next runner in a pod has to tell of the VM.
type lastEnd struct {
	Pod    string         `json:"pod"` // its uid
	Began  time.Time      `json:"began"`
	UUID   string         `json:"uuid"`
	VMType string         `json:"vmType"`
	Cause  vmstatus.Cause `json:"cause"`
	Reason string         `json:"reason"`
}

// noteEnd notes that the guest has shut itself down in a pod. Where that can't be
// noted, a runner that is killed starts the VM again.
func (m *run) noteEnd(opts Options, o *Outcome) {
	if !o.awaitsStop(opts) || opts.Reporter.PodUID() == "" {
		return
	}
	end := lastEnd{
		Pod: opts.Reporter.PodUID(), Began: m.began, UUID: m.vm.Spec.UUID, VMType: m.vm.Plan.Type,
		Cause: o.Cause, Reason: o.Reason,
	}
	path := filepath.Join(m.vm.DataDir, endedFile)
	if err := writeJSON(path, end, durable.Synced); err != nil {
		m.log.Warn("the shutdown of the guest is not recorded", "err", err)
		return
	}
	o.noted = path
}

// endedBefore returns how the guest has ended that ran in this pod, if it has shut
// itself down and no manager has decided since whether it is to run again.
func (m *run) endedBefore(opts Options) (o Outcome, ended bool) {
	if opts.Reporter == nil || opts.Reporter.PodUID() == "" {
		return o, false
	}
	var end lastEnd
	path := filepath.Join(m.vm.DataDir, endedFile)
	there, err := readJSON(path, &end)
	if err != nil {
		m.log.Warn("it is unknown whether the guest has shut itself down in this pod", "err", err)
	}
	if err != nil || !there || end.Pod != opts.Reporter.PodUID() {
		return o, false
	}
	o.Cause, o.Reason, o.noted = end.Cause, end.Reason, path
	m.publish(status.Described{
		Name: m.vm.Config.VM.Name, UUID: end.UUID, VMType: end.VMType,
		Runner: m.thisRunner(opts.Version),
	},
		status.Began(end.Began), status.Read{Generation: m.progress.Generation, Resource: m.vm.Config.Resource},
		o.ending())
	m.log.Info("the guest has shut itself down in this pod; it is not started again", "outcome", o.String())
	return o, true
}

// endedUnseen returns how the machine has ended that an earlier runner has left, if
// QEMU ended in good order while no runner was there, and the parent of both has kept
// the exit status (vmrunner init does): then the guest has shut itself down, as far as an
// exit code tells. A QEMU that failed, or of which nothing is known, is no reason not
// to start the VM.
func (m *run) endedUnseen(ctx context.Context, opts Options) (o Outcome, ended bool) {
	dir, ran := linkedRuntime(m.vm.DataDir, m.vm.RuntimeDir)
	var r record
	there, err := readJSON(filepath.Join(dir, recordFile), &r)
	if !ran || !there || err != nil || r.Version != recordVersion {
		return o, false
	}
	about, cancel := context.WithTimeout(context.WithoutCancel(ctx), remainsTime)
	defer cancel()
	if exit, known := r.QEMU.Ended(about); !known || exit != (process.Exit{}) { // its lock is free
		return o, false
	}
	vm, err := r.vm(context.WithoutCancel(ctx), dir)
	if err != nil {
		m.log.Warn("the VM that has ended cannot be reconstructed", "err", err)
		return o, false
	}
	m.vm, m.began = vm, r.Began
	if _, err := readJSON(filepath.Join(dir, progressFile), &m.progress); err != nil {
		m.log.Warn("the progress of the earlier runner is unknown", "err", err)
	}
	o.Cause = vmstatus.CauseGuest
	if ctx.Err() != nil || m.progress.Stop != nil {
		o.Cause = vmstatus.CauseAsked
	}
	m.noteRuntimeDir()
	m.noteSockets()
	if err := m.serve(context.WithoutCancel(ctx)); err != nil { // and leaves nothing of the killed runner's
		m.log.Warn("the control interface of the VM that has ended is not available", "err", err)
	}
	m.publish(m.description(opts.Version), status.Began(r.Began), status.Read{
		Generation: m.progress.Generation,
		Resource:   vm.Config.Resource,
	}, o.ending())
	m.noteEnd(opts, &o)
	m.log.Info("QEMU has ended in good order while no runner was there; the VM is not started again", "outcome", o.String())
	return o, true
}
