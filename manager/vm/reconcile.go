package vm

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
	"vmop/manager/apply"
	"vmop/manager/assign"
	"vmop/manager/attach"
	"vmop/manager/capture"
	"vmop/manager/decide"
	"vmop/manager/fetch"
	"vmop/manager/leases"
	"vmop/manager/migration"
	"vmop/manager/objects"
	"vmop/manager/provision"
	"vmop/manager/store"
	"vmop/outbound"
)

// reconciler reconciles VMs.
type reconciler struct {
	store    *store.Store
	writer   *apply.Writer
	live     client.Reader // asks the API server
	opts     Options
	memories memories
	modules  modules
	turns    restartTurns
	warnings [objects.Kinds]warnings
	epoch    atomic.Int64 // counts the changes of the settings

	addresses   *leases.Controller
	disks       *provision.Controller
	attachments *attach.Controller
	snapshots   *capture.Controller
	machines    *capture.Machines
	operations  operationMemories
	calls       *migration.Calls
	pools       *assign.Controller
	types       *fetch.Fetcher
}

func newReconciler(to apply.Client, live client.Reader, opts Options) *reconciler {
	known := store.New(opts.Namespace, func() string { return opts.Settings().VMTypes })
	c := &reconciler{
		store:  known,
		writer: apply.NewWriter(to, live, opts.Instance, opts.rewriting, opts.Started),
		live:   live, opts: opts,
		memories: memories{all: map[types.NamespacedName]*memory{}},
		modules:  modules{all: map[types.NamespacedName]moduleSet{}},

		operations: operationMemories{all: map[string]*operationMemory{}},
		addresses: leases.New(leases.Options{
			Namespace: opts.Namespace, Settings: opts.Settings, VMs: known, Client: to, Live: live,
			Random: rand.Uint64N, Now: opts.Now,
		}),
		disks: provision.New(provision.Options{
			Namespace: opts.Namespace, Settings: opts.Settings, VMs: known, Client: to, Live: live, Now: opts.Now,
			Instance: opts.Instance,
		}),
	}
	capturing := capture.Options{
		Namespace: opts.Namespace, VMs: known, Disks: c.disks, Client: to, Live: live, Guest: opts.Guest,
		Instance: opts.Instance, Settings: opts.Settings, Now: opts.Now,
	}
	c.snapshots, c.machines = capture.New(capturing), capture.NewMachines(capturing)
	c.disks.OnChange(c.snapshots.DiskChanged)
	c.disks.SnapshotsAre(sources{c.snapshots, c.machines})
	c.attachments = attach.New(attach.Options{
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
	c.pools = assign.New(assign.Options{
		Namespace: opts.Namespace, Pools: known.Pools(), VMs: known, Disks: c.disks, Client: to,
		Instance: opts.Instance, Now: opts.Now,
	})
	c.disks.OnChange(c.attachments.DiskChanged)
	c.disks.ExportsAre(c.attachments)
	return c
}

// Reconcile does what there is to do for a VM.
func (c *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	epoch := 1 + c.epoch.Load() // the settings of the snapshot are these, or newer
	s, err := c.snapshot(request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if s == nil {
		c.memories.forget(request.NamespacedName)
		c.turns.set(request.Name, false, c.opts.Now())
		c.calls.Gone(request.Name)
		c.types.Forget(request.Name)
		did := c.operate(ctx, request.Name, nil)
		attached, more := c.attachments.Attach(ctx, attach.Subject{Name: request.Name})
		did.Append(more)
		did.Append(c.disks.Release(ctx, request.Name, nil, attached.Kept))
		return after(did, c.opts.Now()), did.Err
	}
	m := c.memories.of(s.VM)
	if objects.VersionOf(s.VM) < m.writing.StatusVersion() {
		return reconcile.Result{}, nil // the watch will bring what was written last
	}
	s.MadeClaims = m.writing.MadeClaims(s.VM)
	round := c.writer.Begin(s, &m.writing, epoch)
	first := &steps{ctx: ctx, vm: s.VM}
	first.run(func() decide.Report { return c.operate(ctx, request.Name, s) })
	did := c.reconcile(ctx, s, m, round)
	did.Append(first.did)
	if did.Err == nil {
		did.RetryAt(round.End())
	}
	result := after(did, s.Now)
	result.Priority = new(store.Urgency(s.VM)) // when it comes again
	return result, did.Err
}

// after returns when to reconcile again after what was done at a time.
func after(did decide.Report, now time.Time) (result reconcile.Result) {
	if did.Err == nil && !did.Again.IsZero() {
		result.RequeueAfter = max(did.Again.Sub(now), firstRetry)
	}
	return result
}

// reconcile takes the steps.
func (c *reconciler) reconcile(ctx context.Context, s *decide.Snapshot, m *memory, round *apply.Round) (
	all decide.Report,
) {
	if s.VM.DeletionTimestamp != nil && round.Held() {
		first := &steps{ctx: ctx, vm: s.VM}
		written := step(first, false, func() (bool, decide.Report) { return c.migrate(ctx, s, round) })
		if written || first.did.Err != nil {
			return first.did
		}
	}
	if s.VM.DeletionTimestamp != nil { // the garbage collector does the rest, or leaves it, as the user asked
		_, all = c.attachments.Attach(ctx, subject(s))
		all.Append(c.publish(ctx, decide.Situation{Snapshot: s}, decide.Findings{}, nil, m, round))
		return all
	}
	first := &steps{ctx: ctx, vm: s.VM}
	if step(first, false, func() (bool, decide.Report) { return c.migrate(ctx, s, round) }) {
		return first.did // the VM is reconciled again with its new status
	}
	all = c.follow(ctx, s, m, round)
	all.Append(first.did)
	return all
}

// follow takes the steps of a VM that is not being deleted.
func (c *reconciler) follow(ctx context.Context, s *decide.Snapshot, m *memory, round *apply.Round) (
	all decide.Report,
) {
	// Without what a VM needs to start, one that is running continues, and no other is started.
	start := &steps{ctx: ctx, vm: s.VM}
	is, written := c.vmType(start, s, round)
	if written {
		return start.did // the VM is reconciled again with its new status
	}
	secret := step(start, "", func() (string, decide.Report) { return round.DisplaySecret(ctx) })
	start.run(func() decide.Report { return decide.Data(s) })
	claims := step(start, nil, func() ([]objects.Claim, decide.Report) { return decide.Claims(s) })
	if written, err := round.AnnounceClaims(ctx, claims); written || err != nil {
		start.did.Append(decide.Report{Err: err})
		return start.did // the VM is reconciled again with its new status
	}
	frozen := step(start, true, func() (bool, decide.Report) { return round.Claims(ctx, claims) })
	disks := step(start, provision.Attached{Unknown: true}, func() (provision.Attached, decide.Report) {
		return c.disks.Attach(start.ctx, objects.ForArchitecture(s.VM, is.architecture), claims, s.Settings)
	})
	mounted := slices.Concat(claims, objects.DeviceClaims(s.VM, disks.Devices))
	attached := step(start, attach.Attached{Unknown: true}, func() (attach.Attached, decide.Report) {
		return c.attachments.Attach(start.ctx, subject(s))
	})
	trusted, address, config := c.configure(start, s, mounted, disks, attached, round)
	if written, err := round.FinalStatus(ctx); written || err != nil {
		start.did.Append(decide.Report{Err: err})
		return start.did // the VM is reconciled again with its new status
	}
	had, situation := s.VM.Status.Failures, situationOf(s, start.did.Obstacle)
	refs := slices.Concat(c.disks.Refs(s.VM, s.Pod), attached.Refs)
	found := findings(situation, is, start.did.Problems, address.Name, refs)
	if f := situation.Failures; f != nil && (had == nil || f.LastTime != had.LastTime) {
		start.did.Append(c.publish(ctx, situation, found, claims, m, round)) // before the failure is gone with its pod
		return start.did
	}
	decision := decide.Decide(situation)
	from := apply.PodSource{Secret: secret, Architecture: is.architecture}
	from.Frozen = frozen || !trusted || s.Class.Frozen() || disks.Unknown
	if claims != nil {
		from.Claims = mounted
	}
	next := step(start, apply.NextPod{}, func() (apply.NextPod, decide.Report) {
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
	all.Append(c.restart(ctx, situation, &found, round))
	all.Append(c.publish(ctx, situation, found, claims, m, round))
	return all
}

// findings are what the steps before the decision have found.
func findings(s decide.Situation, is typed, problems []decide.Problem, ip string, refs []v1.BlockDeviceStatusRef) (
	found decide.Findings,
) {
	found = decide.Findings{
		Type: is.verdict, Architecture: is.architecture, Problems: problems, IPAddress: ip, BlockDevices: refs,
	}
	found.Restart = decide.RestartOf(s, found)
	return found
}

// situationOf returns what the future of a VM depends on, with the failure of its present pod.
func situationOf(s *decide.Snapshot, o decide.Obstacle) decide.Situation {
	changed := s.VM.Generation != s.VM.Status.ObservedGeneration || decide.DataChanged(s)
	return decide.Situation{
		Snapshot: s, Obstacle: o, Failures: decide.CountFailures(s.VM.Status.Failures, s.Pod, changed, s.Now),
	}
}

// files are what a pod has that may change: the name of the display secret, the version of the
// ConfigMap if it was written in this round, and attached disks.
type files struct {
	secret   string
	config   uint64
	attached attach.Attached
}

// subject is a VM whose disks are attached and detached.
func subject(s *decide.Snapshot) attach.Subject {
	return attach.Subject{Name: s.VM.Name, VM: s.VM, ConfigMap: s.ConfigMap}
}

// carryOut does what was decided about the VM's pod and its guest, and keeps its service.
func (c *reconciler) carryOut(ctx context.Context, s *decide.Snapshot, round *apply.Round, decision decide.Decision,
	of files,
) decide.Report {
	rest := &steps{ctx: ctx, vm: s.VM}
	rest.run(func() decide.Report { return round.GuestEnd(ctx, decision) })
	if decision.Replace == "" {
		rest.run(func() decide.Report {
			return round.PatchPod(ctx, of.secret, of.config, of.attached.TLSVersion, of.attached.Drives.Revision)
		})
	}
	rest.run(func() decide.Report { return round.Service(ctx) })
	rest.run(func() decide.Report { return round.Eviction(ctx, decide.EvictionOf(s)) })
	rest.run(func() decide.Report { return c.disks.Release(ctx, s.VM.Name, s.VM, of.attached.Kept) })
	return rest.did
}

// restart restarts the VM if changes await that, its definition has it so, and it is its turn.
func (c *reconciler) restart(ctx context.Context, s decide.Situation, found *decide.Findings, round *apply.Round) (
	did decide.Report,
) {
	found.Restart = decide.RestartOf(s, *found)
	name := s.VM.Name
	if !found.Restart.Due {
		c.turns.set(name, found.Restart.Busy, s.Now)
		return did
	}
	mine, again := c.turns.claim(name, s.Settings.Restarts, s.Now)
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

// configure gives the VM its address, and writes the runner's configuration if its definition is
// trusted, and its class lets it be followed. It returns the version that was written; 0 if none was.
func (c *reconciler) configure(start *steps, s *decide.Snapshot, claims []objects.Claim, disks provision.Attached,
	attached attach.Attached, round *apply.Round,
) (
	trusted bool, address leases.Attached, version uint64,
) {
	trusted = step(start, false, func() (bool, decide.Report) { return decide.Trust(s, claims) })
	address = step(start, leases.Attached{Unknown: true}, func() (leases.Attached, decide.Report) {
		return c.addresses.Attach(start.ctx, s.VM)
	})
	version = step(start, 0, func() (uint64, decide.Report) {
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

// publish writes the VM's status.
func (c *reconciler) publish(ctx context.Context, s decide.Situation, found decide.Findings, claims []objects.Claim,
	m *memory, round *apply.Round,
) (did decide.Report) {
	if at := decide.AcknowledgeBy(s.Pod); s.Now.Before(at) {
		did.RetryAt(at)
	}
	did.RetryAt(decide.LookAgainAt(s.Pod, s.Now))
	found.Volumes = objects.Volumes(s.VM, claims)
	p := decide.PhaseOf(s)
	e := explanation{c: c, Snapshot: s.Snapshot, claims: claims, memory: m}
	e.explain(ctx, &p)
	did.RetryAt(e.again)
	did.Err = round.Status(ctx, s, found, p)
	return did
}

// steps takes steps, and has their reports.
type steps struct {
	ctx context.Context
	vm  *v1.VirtualMachine
	did decide.Report
}

// run takes a step. A panic in it is an error: a fault with one VM is reported, and
// keeps neither its other steps nor other VMs waiting.
func (t *steps) run(do func() decide.Report) {
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

// step takes a step with a result, which is otherwise if it panics.
func step[T any](t *steps, otherwise T, do func() (T, decide.Report)) T {
	result := otherwise
	t.run(func() (did decide.Report) {
		result, did = do()
		return did
	})
	return result
}
