package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "vmop/api/v1"
	"vmop/internal/outbound"
	addressctl "vmop/manager/addresses/controller"
	attachmentctl "vmop/manager/attachment/controller"
	diskctl "vmop/manager/disk/controller"
	"vmop/manager/operation/migration"
	poolctl "vmop/manager/pool/controller"
	snapshotctl "vmop/manager/snapshot/controller"
	"vmop/manager/store"
	"vmop/manager/store/publish"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/fetch"
	"vmop/manager/vm/objects"
)

// reconciler reconciles VMs.
type reconciler struct {
	store    *store.Store
	writer   *apply.Writer
	live     client.Reader // reads from the API server
	opts     Options
	memories memories
	modules  modules
	turns    restartTurns
	warnings [objects.Kinds]warnings
	epoch    atomic.Int64 // counts the changes of the settings

	addresses   *addressctl.Controller
	disks       *diskctl.Controller
	attachments *attachmentctl.Controller
	snapshots   *snapshotctl.Controller
	machines    *snapshotctl.Machines
	operations  operationMemories
	calls       *migration.Calls
	pools       *poolctl.Controller
	types       *fetch.Fetcher
}

func newReconciler(to publish.Client, live client.Reader, opts Options) *reconciler {
	known := store.New(opts.Namespace, func() string { return opts.Settings().VMTypes })
	c := &reconciler{
		store:  known,
		writer: apply.NewWriter(to, live, opts.Instance, opts.rewriting, opts.Started),
		live:   live, opts: opts,
		memories: memories{all: map[types.NamespacedName]*memory{}},
		modules:  modules{all: map[types.NamespacedName]moduleSet{}},

		operations: operationMemories{all: map[string]*operationMemory{}},
		addresses: addressctl.New(addressctl.Options{
			Namespace: opts.Namespace, Settings: opts.Settings, VMs: known, Client: to, Live: live,
			Random: rand.Uint64N, Now: opts.Now,
		}),
	}
	c.disks = diskctl.New(diskctl.Options{
		Namespace: opts.Namespace, Settings: opts.Settings, VMs: known, Client: to, Live: live, Now: opts.Now,
		Instance: opts.Instance, Snapshots: neighbors{c}, Exports: neighbors{c}, Changed: neighbors{c}.diskChanged,
	})
	capturing := snapshotctl.Options{
		Namespace: opts.Namespace, VMs: known, Disks: c.disks, Client: to, Live: live, Guest: opts.Guest,
		Instance: opts.Instance, Settings: opts.Settings, Now: opts.Now,
	}
	c.snapshots, c.machines = snapshotctl.New(capturing), snapshotctl.NewMachines(capturing)
	c.attachments = attachmentctl.New(attachmentctl.Options{
		Namespace: opts.Namespace, Settings: opts.Settings, VMs: known, Disks: c.disks, Client: to, Live: live,
		Instance: opts.Instance, Now: opts.Now,
	})
	c.calls = &migration.Calls{
		Source: opts.Source, Target: opts.Target, Changed: func(vm string) { known.Enqueue(vm) }, Now: opts.Now,
	}
	c.types = &fetch.Fetcher{
		Secret: c.pullSecret, Changed: func(vm string) { known.Enqueue(vm) }, Now: opts.Now,
		Reach: func() outbound.Rule {
			return outbound.Rule{NoPrivate: opts.Settings().NoPrivateAddresses, Exempt: opts.exempt}
		},
	}
	c.pools = poolctl.New(poolctl.Options{
		Namespace: opts.Namespace, Pools: known.Pools(), VMs: known, Disks: c.disks, Client: to,
		Instance: opts.Instance, Now: opts.Now,
	})
	return c
}

// Reconcile reconciles a single VM.
func (c *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	epoch := 1 + c.epoch.Load() // the snapshot's settings are at least this new
	s, err := c.snapshotOf(request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s == nil {
		c.memories.forgetVM(request.NamespacedName)
		c.turns.setBusy(request.Name, false, c.opts.Now())
		c.calls.Gone(request.Name)
		c.types.Forget(request.Name)
		did := c.followOperations(ctx, request.Name, nil)
		attached, more := c.attachments.Attach(ctx, attachmentctl.Subject{Name: request.Name})
		did.Append(more)
		did.Append(c.disks.Release(ctx, request.Name, nil, attached.Kept))
		return resultAfter(did, c.opts.Now()), did.Err
	}
	m := c.memories.memoryOf(s.VM)
	if objects.VersionOf(s.VM) < m.writing.StatusVersion() {
		return reconcile.Result{}, nil // the watch will deliver the last write
	}
	s.MadeClaims = m.writing.MadeClaims(s.VM)
	round := c.writer.Begin(s, &m.writing, epoch)
	first := &steps{ctx: ctx, vm: s.VM}
	first.runStep(func() decide.Report { return c.followOperations(ctx, request.Name, s) })
	did := c.reconcileVM(ctx, s, m, round)
	did.Append(first.did)
	if did.Err == nil {
		did.RetryAt(round.End())
	}
	result := resultAfter(did, s.Now)
	result.Priority = new(store.Urgency(s.VM)) // for its next turn in the queue
	return result, did.Err
}

// resultAfter returns when to reconcile again.
func resultAfter(did decide.Report, now time.Time) (result reconcile.Result) {
	if did.Err == nil && !did.Again.IsZero() {
		result.RequeueAfter = max(did.Again.Sub(now), store.FirstRetry)
	}
	return result
}

// reconcileVM runs the steps.
func (c *reconciler) reconcileVM(ctx context.Context, s *decide.Snapshot, m *memory, round *apply.Round) (
	all decide.Report,
) {
	if s.VM.DeletionTimestamp != nil && round.Held() {
		first := &steps{ctx: ctx, vm: s.VM}
		written := runStepFor(first, false, func() (bool, decide.Report) { return c.followMigration(ctx, s, round) })
		if written || first.did.Err != nil {
			return first.did
		}
	}
	if s.VM.DeletionTimestamp != nil { // the garbage collector deletes or orphans the rest, as requested
		_, all = c.attachments.Attach(ctx, attachmentSubject(s))
		all.Append(c.publishStatus(ctx, decide.Situation{Snapshot: s}, decide.Findings{}, nil, m, round))
		return all
	}
	first := &steps{ctx: ctx, vm: s.VM}
	if runStepFor(first, false, func() (bool, decide.Report) { return c.followMigration(ctx, s, round) }) {
		return first.did // the VM is reconciled again with its new status
	}
	all = c.followVM(ctx, s, m, round)
	all.Append(first.did)
	return all
}

// followVM runs the steps for a VM that is not being deleted.
func (c *reconciler) followVM(ctx context.Context, s *decide.Snapshot, m *memory, round *apply.Round) (
	all decide.Report,
) {
	// If a VM lacks something that it needs to start, it keeps running, but it isn't started.
	start := &steps{ctx: ctx, vm: s.VM}
	is, written := c.vmType(start, s, round)
	if written {
		return start.did // the VM is reconciled again with its new status
	}
	secret := runStepFor(start, "", func() (string, decide.Report) { return round.DisplaySecret(ctx) })
	start.runStep(func() decide.Report { return decide.Data(s) })
	claims := runStepFor(start, nil, func() ([]objects.Claim, decide.Report) { return decide.Claims(s) })
	if written, err := round.AnnounceClaims(ctx, claims); written || err != nil {
		start.did.Append(decide.Report{Err: err})
		return start.did // the VM is reconciled again with its new status
	}
	frozen := runStepFor(start, true, func() (bool, decide.Report) { return round.Claims(ctx, claims) })
	disks := runStepFor(start, diskctl.Attached{Unknown: true}, func() (diskctl.Attached, decide.Report) {
		return c.disks.Attach(start.ctx, objects.ForArchitecture(s.VM, is.architecture), claims, s.Settings)
	})
	mounted := slices.Concat(claims, objects.DeviceClaims(s.VM, disks.Devices))
	unknown := attachmentctl.Attached{Unknown: true}
	attached := runStepFor(start, unknown, func() (attachmentctl.Attached, decide.Report) {
		return c.attachments.Attach(start.ctx, attachmentSubject(s))
	})
	trusted, address, config := c.configureRunner(start, s, mounted, disks, attached, round)
	if written, err := round.FinalStatus(ctx); written || err != nil {
		start.did.Append(decide.Report{Err: err})
		return start.did // the VM is reconciled again with its new status
	}
	had, situation := s.VM.Status.Failures, situationOf(s, start.did.Obstacle)
	refs := slices.Concat(c.disks.Refs(s.VM, s.Pod), attached.Refs)
	found := newFindings(situation, is, start.did.Problems, address.Name, refs)
	if f := situation.Failures; f != nil && (had == nil || f.LastTime != had.LastTime) {
		start.did.Append(c.publishStatus(ctx, situation, found, claims, m, round)) // while the failed pod still exists
		return start.did
	}
	decision := decide.Decide(situation)
	from := apply.PodSource{Secret: secret, Architecture: is.architecture}
	from.Frozen = frozen || !trusted || s.Class.Frozen() || disks.Unknown
	if claims != nil {
		from.Claims = mounted
	}
	next := runStepFor(start, apply.NextPod{}, func() (apply.NextPod, decide.Report) {
		return round.StatefulSet(ctx, from, decision)
	})
	if next.Replace != "" {
		decision.Replace = next.Replace
	}
	done := c.carryOut(ctx, s, round, decision, files{secret, config, attached})
	situation.Obstacle, found.Applied = start.did.Obstacle, next.Applied
	found.Changes = slices.Concat(next.Changes, s.Class.Changes)
	found.Problems = slices.Concat(start.did.Problems, done.Problems)
	all.Append(start.did)
	all.Append(done)
	all.RetryAt(decision.Again)
	all.Append(c.restartInTurn(ctx, situation, &found, round))
	all.Append(c.publishStatus(ctx, situation, found, claims, m, round))
	return all
}

// newFindings returns the results of the steps before the decision.
func newFindings(s decide.Situation, is typed, problems []decide.Problem, ip string, refs []v1.BlockDeviceStatusRef) (
	found decide.Findings,
) {
	found = decide.Findings{
		Type: is.verdict, Architecture: is.architecture, Problems: problems, IPAddress: ip, BlockDevices: refs,
	}
	found.Restart = decide.RestartOf(s, found)
	return found
}

// situationOf returns everything that determines a VM's future, including the failure of its current pod.
func situationOf(s *decide.Snapshot, o decide.Obstacle) decide.Situation {
	changed := s.VM.Generation != s.VM.Status.ObservedGeneration || decide.DataChanged(s)
	return decide.Situation{
		Snapshot: s, Obstacle: o, Failures: decide.CountFailures(s.VM.Status.Failures, s.Pod, changed, s.Now),
	}
}

// files describes the mutable parts of a pod: the name of the display secret, the version of the ConfigMap if it was
// written in this round, and attached disks.
type files struct {
	secret   string
	config   uint64
	attached attachmentctl.Attached
}

// attachmentSubject returns the VM in the form that the attachment controller needs.
func attachmentSubject(s *decide.Snapshot) attachmentctl.Subject {
	return attachmentctl.Subject{Name: s.VM.Name, VM: s.VM, ConfigMap: s.ConfigMap}
}

// carryOut carries out the decision about the VM's pod and its guest. It also updates the VM's service, its
// protection from eviction, and its disks.
func (c *reconciler) carryOut(ctx context.Context, s *decide.Snapshot, round *apply.Round, decision decide.Decision,
	of files,
) decide.Report {
	rest := &steps{ctx: ctx, vm: s.VM}
	rest.runStep(func() decide.Report { return round.GuestEnd(ctx, decision) })
	if decision.Replace == "" {
		rest.runStep(func() decide.Report {
			return round.PatchPod(ctx, of.secret, of.config, of.attached.TLSVersion, of.attached.Drives.Revision)
		})
	}
	rest.runStep(func() decide.Report { return round.Service(ctx) })
	rest.runStep(func() decide.Report { return round.Eviction(ctx, decide.EvictionOf(s)) })
	rest.runStep(func() decide.Report { return c.disks.Release(ctx, s.VM.Name, s.VM, of.attached.Kept) })
	return rest.did
}

// restartInTurn restarts the VM if changes are pending, its definition allows automatic restarts, and it is the VM's
// turn.
func (c *reconciler) restartInTurn(ctx context.Context, s decide.Situation, found *decide.Findings,
	round *apply.Round) (
	did decide.Report,
) {
	found.Restart = decide.RestartOf(s, *found)
	name := s.VM.Name
	if !found.Restart.Due {
		c.turns.setBusy(name, found.Restart.Busy, s.Now)
		return did
	}
	mine, again := c.turns.claimTurn(name, s.Settings.Restarts, s.Now)
	if !mine {
		did.RetryAt(again)
		return did
	}
	all, err := c.store.Operations(name)
	if err != nil {
		did.Err = err
		return did
	}
	switch found.Restart.Advance(s, all); {
	case found.Restart.Create:
		did.Append(round.Request(ctx, found.Restart.Update))
	case found.Restart.Delete:
		did.Err = round.RestartPod(ctx)
	}
	return did
}

// configureRunner assigns the VM's address. It writes the runner's configuration if the VM is trusted and its class
// allows updates. It returns the version that it wrote, or 0 without a write.
func (c *reconciler) configureRunner(start *steps, s *decide.Snapshot, claims []objects.Claim, disks diskctl.Attached,
	attached attachmentctl.Attached, round *apply.Round,
) (
	trusted bool, address addressctl.Attached, version uint64,
) {
	trusted = runStepFor(start, false, func() (bool, decide.Report) { return decide.Trust(s, claims) })
	address = runStepFor(start, addressctl.Attached{Unknown: true}, func() (addressctl.Attached, decide.Report) {
		return c.addresses.Attach(start.ctx, s.VM)
	})
	version = runStepFor(start, 0, func() (uint64, decide.Report) {
		stays := !trusted || s.Elsewhere() || address.Unknown || disks.Unknown && !disks.Exported || attached.Unknown ||
			!s.Class.Follows()
		version, did := round.ConfigMap(start.ctx, stays, objects.Given{
			Lease: address.Lease, Devices: disks.Devices, Drives: attached.Drives,
			Unfiltered: s.Settings.Trust.Unfiltered,
		})
		if version != 0 {
			c.attachments.Wrote(s.VM, attached.Drives, version)
		}
		return version, did
	})
	return trusted, address, version
}

// publishStatus writes the VM's status.
func (c *reconciler) publishStatus(ctx context.Context, s decide.Situation, found decide.Findings,
	claims []objects.Claim,
	m *memory, round *apply.Round,
) (did decide.Report) {
	if at := decide.AcknowledgeBy(s.Pod); s.Now.Before(at) {
		did.RetryAt(at)
	}
	did.RetryAt(decide.LookAgainAt(s.Pod, s.Now))
	found.Volumes = objects.Volumes(s.VM, claims)
	p := decide.PhaseOf(s)
	e := explanation{c: c, Snapshot: s.Snapshot, claims: claims, memory: m}
	e.explainPhase(ctx, &p)
	did.RetryAt(e.again)
	did.Err = round.Status(ctx, s, found, p)
	return did
}

// steps runs steps and collects their reports.
type steps struct {
	ctx context.Context
	vm  *v1.VirtualMachine
	did decide.Report
}

// runStep runs a step. It converts a panic into an error, so that a bug that affects one VM is reported and doesn't
// block its other steps or other VMs.
func (t *steps) runStep(do func() decide.Report) {
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("reconcile VM %s: panic: %v", t.vm.Name, p)
			log.FromContext(t.ctx).Error(err, "panic", "stack", string(debug.Stack()))
			var did decide.Report
			did.Stop(nil, err)
			t.did.Append(did)
		}
	}()
	t.did.Append(do())
}

// runStepFor runs a step with a result. If the step panics, it returns otherwise.
func runStepFor[T any](t *steps, otherwise T, do func() (T, decide.Report)) T {
	result := otherwise
	t.runStep(func() (did decide.Report) {
		result, did = do()
		return did
	})
	return result
}
