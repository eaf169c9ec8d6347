package capture

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

// Machines makes snapshots of VMs. Its methods may be called by several goroutines.
type Machines struct {
	maker
	queue

	book     *store.MachineSnapshots
	attempts attempts
	also     func(of *v1.VirtualMachineSnapshot) // called for each that has changed; nil for none
}

// NewMachines returns one that knows nothing yet.
func NewMachines(opts Options) *Machines {
	m := &Machines{maker: maker{opts}, attempts: attempts{now: opts.Now, all: map[types.UID]*attempt{}}}
	m.namespace = opts.Namespace
	m.book = store.NewMachineSnapshots(opts.Namespace, m.changed, m.enqueueAll)
	return m
}

func (m *Machines) enqueueAll() { m.enqueue(m.book.Names()...) }

func (m *Machines) changed(name string) {
	m.enqueue(name)
	if of := m.book.Snapshot(name); of != nil && m.also != nil {
		m.also(of)
	}
}

// OnChange has a function called for each snapshot that is there and has changed. It is to be called
// before Add.
func (m *Machines) OnChange(do func(of *v1.VirtualMachineSnapshot)) { m.also = do }

// Book returns the snapshots as this controller knows them.
func (m *Machines) Book() *store.MachineSnapshots { return m.book }

// Snapshot returns a snapshot of a VM; nil if there is none of that name.
func (m *Machines) Snapshot(name string) *v1.VirtualMachineSnapshot { return m.book.Snapshot(name) }

// VMChanged makes the snapshots of a VM be looked at that wait for it.
func (m *Machines) VMChanged(vm string) {
	for _, name := range m.book.Of(vm) {
		if of := m.book.Snapshot(name); of != nil && of.Status.Phase == v1.SnapshotPending {
			m.enqueue(name)
		}
	}
}

// Add adds the controller to a manager, with a client that watches.
func (m *Machines) Add(mgr manager.Manager, watching client.WithWatch) error {
	if err := m.addTo(mgr, "vmsnapshot", m, m.enqueueAll); err != nil {
		return err
	}
	return mgr.Add(store.Always(func(ctx context.Context) error {
		m.book.Follow(ctx, watching)
		return nil
	}))
}

// Reconcile does what there is to do for a snapshot of a VM.
func (m *Machines) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	unknown, noVolumes := m.book.Unavailable()
	if unknown != "" {
		return reconcile.Result{RequeueAfter: unlistedRetry}, nil
	}
	of := m.book.Snapshot(request.Name)
	m.attempts.forget(request.Name, func(uid types.UID) bool {
		return of != nil && of.UID == uid && of.Status.Consistent == nil && of.Status.Phase != v1.SnapshotFailed
	})
	if of == nil {
		return reconcile.Result{}, nil
	}
	again, err := m.serve(ctx, of, noVolumes)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil // the watch is about to bring something else
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// serve makes a snapshot of a VM, as far as possible, and says in its status how far.
func (m *Machines) serve(ctx context.Context, of *v1.VirtualMachineSnapshot, noVolumes string) (
	again time.Duration, err error,
) {
	s := snapshot.MachineSituation{Snapshot: of, Volumes: m.book.Volumes(of.Name), Now: m.opts.Now()}
	s.Capturing, s.Outcome, again = m.attempts.of(of.UID)
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
		gone, err := m.gone(ctx, name, of.Status.Volumes[at].VolumeSnapshotUID)
		if err != nil || !gone {
			return goneRetry, err
		}
		s.Gone = name
	case snapshot.Remove:
		if err := m.publish(ctx, of, snapshot.StatusOfMachine(s)); err != nil { // why, before they are gone
			return 0, err
		}
		for name, uid := range s.Own() {
			if err := m.remove(ctx, name, uid); err != nil {
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
		if err := m.publish(ctx, of, snapshot.StatusOfMachine(s)); err != nil {
			return 0, err
		}
		m.attempts.begin(ctx, of, func(ctx context.Context) snapshot.Outcome { return m.attempt(ctx, of, p) },
			func() { m.enqueue(of.Name) })
		return 0, nil
	case snapshot.Nothing:
	}
	return again, m.publish(ctx, of, snapshot.StatusOfMachine(s))
}

// planRetry is when it is looked again whether a VM has what a snapshot is made of.
const planRetry = 10 * time.Second

// publish writes the status of a snapshot, if it differs, and an event if that is worth one.
func (m *Machines) publish(ctx context.Context, of *v1.VirtualMachineSnapshot,
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
		m.event(ctx, of, v1.KindVMSnapshot, said{is.Phase, is.Reason, is.Message})
	}
	return nil
}
