package controller

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/manager/snapshot"
	"vmop/manager/store"
)

// Machines creates snapshots of VMs. It is safe for concurrent use.
type Machines struct {
	maker

	requests store.Requests
	book     *store.MachineSnapshots
	attempts attempts
}

// NewMachines returns a controller with an empty store.
func NewMachines(opts Options) *Machines {
	m := &Machines{maker: maker{opts}, attempts: attempts{now: opts.Now, all: map[types.UID]*attempt{}}}
	m.book = store.NewMachineSnapshots(opts.Namespace, func(name string) { m.requests.Enqueue(name) }, m.enqueueAll)
	return m
}

func (m *Machines) enqueueAll() { m.requests.Enqueue(m.book.Names()...) }

// Book returns the controller's store of snapshots.
func (m *Machines) Book() *store.MachineSnapshots { return m.book }

// Snapshot returns a snapshot of a VM, or nil if it does not exist.
func (m *Machines) Snapshot(name string) *v1.VirtualMachineSnapshot { return m.book.Snapshot(name) }

// VMChanged requests reconciliations of the snapshots that wait for a VM.
func (m *Machines) VMChanged(vm string) {
	for _, name := range m.book.Of(vm) {
		if of := m.book.Snapshot(name); of != nil && of.Status.Phase == v1.SnapshotPending {
			m.requests.Enqueue(name)
		}
	}
}

// Add adds the controller to a manager. watching is a client that can watch.
func (m *Machines) Add(mgr manager.Manager, watching client.WithWatch) error {
	return m.requests.Add(mgr, store.Controlled{
		Name: "vmsnapshot", Namespace: m.opts.Namespace, Reconciler: m, Concurrency: concurrency,
		EnqueueAll: m.enqueueAll,
		Follow:     func(ctx context.Context) { m.book.Follow(ctx, watching) },
	})
}

// Reconcile performs the next step for a snapshot of a VM.
func (m *Machines) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	unknown, noVolumes := m.book.Unavailable()
	if unknown != "" {
		return reconcile.Result{RequeueAfter: unlistedRetry}, nil
	}
	of := m.book.Snapshot(request.Name)
	m.attempts.forgetEnded(request.Name, func(uid types.UID) bool {
		return of != nil && of.UID == uid && of.Status.Consistent == nil && of.Status.Phase != v1.SnapshotFailed
	})
	if of == nil {
		return reconcile.Result{}, nil
	}
	again, err := m.serveSnapshot(ctx, of, noVolumes)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil // the watch will deliver a newer version
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// serveSnapshot creates a snapshot of a VM, as far as possible, and writes the progress to its status.
func (m *Machines) serveSnapshot(ctx context.Context, of *v1.VirtualMachineSnapshot, noVolumes string) (
	again time.Duration, err error,
) {
	s := snapshot.MachineSituation{Snapshot: of, Volumes: m.book.Volumes(of.Name), Now: m.opts.Now()}
	s.Capturing, s.Outcome, again = m.attempts.attemptOf(of.UID)
	if noVolumes != "" && len(s.Volumes) == 0 && s.Outcome == nil && !s.Capturing && of.Status.Consistent == nil {
		s.Outcome, again = &snapshot.Outcome{Reason: snapshot.ReasonUnsupported, Message: unsupported}, unlistedRetry
	}
	switch snapshot.NextOfMachine(s) {
	case snapshot.Confirm:
		if noVolumes != "" {
			return unlistedRetry, nil
		}
		name := s.Missing()
		at := slices.IndexFunc(of.Status.Volumes, func(v v1.SnapshotVolume) bool {
			return v.VolumeSnapshotName == name
		})
		gone, err := m.isObjectGone(ctx, name, of.Status.Volumes[at].VolumeSnapshotUID)
		if err != nil || !gone {
			return goneRetry, err
		}
		s.Gone = name
	case snapshot.Remove:
		if err := m.publishSnapshot(ctx, of, snapshot.StatusOfMachine(s)); err != nil { // publish the reason first
			return 0, err
		}
		for name, uid := range s.Own() {
			if err := m.removeSnapshot(ctx, name, uid); err != nil {
				return 0, err
			}
		}
		return goneRetry, nil
	case snapshot.Capture:
		p, why, err := m.planOf(of)
		if err != nil {
			return 0, err
		}
		if why != nil {
			s.Outcome, again = why, planRetry
			break
		}
		s.Capturing = true
		if err := m.publishSnapshot(ctx, of, snapshot.StatusOfMachine(s)); err != nil {
			return 0, err
		}
		m.attempts.beginAttempt(ctx, of, func(ctx context.Context) snapshot.Outcome {
			return m.attemptSnapshot(ctx, of,
				p)
		},
			func() { m.requests.Enqueue(of.Name) })
		return 0, nil
	case snapshot.Nothing:
	}
	return again, m.publishSnapshot(ctx, of, snapshot.StatusOfMachine(s))
}

// planRetry is the delay before checking again whether a VM has everything that a snapshot requires.
const planRetry = 10 * time.Second

// publishSnapshot writes the status of a snapshot if it differs, and an event if the phase has changed.
func (m *Machines) publishSnapshot(ctx context.Context, of *v1.VirtualMachineSnapshot,
	is v1.VirtualMachineSnapshotStatus,
) error {
	was := of.Status
	if equality.Semantic.DeepEqual(was, is) {
		return nil
	}
	next := &v1.VirtualMachineSnapshot{}
	next.Name, next.Namespace = of.Name, m.opts.Namespace
	if err := m.writeStatus(ctx, v1.KindVMSnapshot, of, next, is); err != nil {
		return err
	}
	of.ResourceVersion = next.ResourceVersion
	if is.Phase != was.Phase {
		m.recordEvent(ctx, of, v1.KindVMSnapshot, said{is.Phase, is.Reason, is.Message})
	}
	return nil
}
