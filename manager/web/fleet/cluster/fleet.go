package cluster

import (
	"cmp"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/access"
	poolctl "vmop/manager/pool/controller"
	"vmop/manager/store"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/manager/web/stream"
)

// Options are what a fleet needs. All are required, but Now.
type Options struct {
	// Namespace of the VMs.
	Namespace string
	// Store has the VMs and their pods. It must not be followed yet.
	Store *store.Store
	// Volumes has the disks of the namespace. It must not be followed yet.
	Volumes store.Volumes
	// Client patches and deletes VMs, deletes pods, creates, lists and watches events, and lists storage
	// classes: without a cache, as they would all be in it.
	Client client.WithWatch
	// Assign gives VMs of pools to users.
	Assign *poolctl.Controller
	// Keys open connections to runners.
	Keys *stream.Keys
	// Types are the VM types.
	Types Types
	// Instance is the name of the manager's process in events.
	Instance string
	// Log takes failures that keep no action from being done.
	Log *slog.Logger
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// A Fleet is the VMs of a namespace. Its methods may be called concurrently.
type Fleet struct {
	opts Options

	making sync.Mutex    // held while VMs are decoded
	heard  chan struct{} // a place for each page whose events are watched

	mu      sync.Mutex // of what follows
	changed chan struct{}
	table   *fleet.Table         // nil: no page has asked for some time
	rights  map[string]access.VM // of those in the table
	stale   map[string]struct{}  // names of those that must be decoded again
	idle    *time.Timer
	filling bool // all VMs are being decoded
	classes keptClasses
}

var _ fleet.Fleet = (*Fleet)(nil)

// idleTime is how long VMs are kept that no page asks for: longer than any page waits that is
// open.
const idleTime = 3 * time.Minute

// New returns the fleet of a namespace.
func New(opts Options) *Fleet {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	f := &Fleet{opts: opts, heard: make(chan struct{}, mostHeard)}
	opts.Store.OnChange(func(vm string) { f.hasChanged(vm) })
	opts.Store.Pools().OnChange(f.hasChanged)
	f.showVolumes(opts.Volumes)
	return f
}

// hasChanged notes that VMs, their pods or their disks are not as they were; without a name that a disk of no VM
// isn't.
func (f *Fleet) hasChanged(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.table != nil {
		for _, name := range names {
			f.stale[name] = struct{}{}
		}
	}
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// Changed implements fleet.Fleet.
func (f *Fleet) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

// Used implements fleet.Fleet.
func (f *Fleet) Used() fleet.Use {
	cpus, ram := f.opts.Store.Used()
	return fleet.Use{CPUs: cpus, RAM: ram}
}

// List implements fleet.Fleet.
func (f *Fleet) List() []*fleet.VM {
	return f.refreshTable(func() []string {
		names := make([]string, 0, len(f.stale))
		for name := range f.stale {
			names = append(names, name)
		}
		return names
	}).List()
}

// fewStale is how many VMs a page waits for; more are decoded in the background.
const fewStale = 256

// Outline implements fleet.Fleet. Most often the list is there, or nearly; if not, it is made in the
// background, because whoever opens a page looks at its first VMs.
//
// See docs/decisions/0078-first-page.md.
func (f *Fleet) Outline() []*fleet.VM {
	f.mu.Lock()
	there := f.table != nil && len(f.stale) <= fewStale
	fill := !there && !f.filling
	f.filling = f.filling || fill
	f.mu.Unlock()
	if there {
		return f.List()
	}
	all := f.opts.Store.Outlines()
	if len(all) <= fewStale {
		f.noteFilled(fill)
		return f.List()
	}
	if fill {
		go func() { // for the stream of the page, which comes next
			f.fillTable()
			f.noteFilled(true)
		}()
	}
	vms, brief := make([]*fleet.VM, len(all)), make([]fleet.VM, len(all))
	for i, o := range all {
		vms[i] = &brief[i]
		brief[i] = fleet.VM{
			Name: o.Name, Brief: true, State: cmp.Or(fleet.State(o.Phase), fleet.Pending),
			CPUs: fleet.Amount{Now: o.CPUs}, RAM: fleet.Amount{Now: o.RAM},
		}
	}
	return vms
}

// Whole implements fleet.Fleet.
func (f *Fleet) Whole(vms []*fleet.VM) []*fleet.VM {
	if len(vms) == 0 || !vms[0].Brief {
		return vms
	}
	table := f.refreshTable(func() (names []string) {
		for _, vm := range vms {
			if _, stale := f.stale[vm.Name]; stale {
				names = append(names, vm.Name)
			}
		}
		return names
	})
	whole := make([]*fleet.VM, 0, len(vms))
	for _, vm := range vms {
		if vm, err := table.Get(vm.Name); err == nil {
			whole = append(whole, vm)
		}
	}
	return whole
}

// fillTable decodes all VMs that are stale, a few at a time: pages that need one don't wait for all.
func (f *Fleet) fillTable() {
	for more := true; more; {
		f.refreshTable(func() []string {
			names := make([]string, 0, fewDecoded)
			for name := range f.stale {
				if len(names) == fewDecoded {
					break
				}
				names = append(names, name)
			}
			more = len(names) > 0
			return names
		})
	}
}

// noteFilled notes that VMs are no longer being decoded, if it was this caller who has begun.
func (f *Fleet) noteFilled(begun bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filling = f.filling && !begun
}

// Get implements fleet.Fleet.
func (f *Fleet) Get(name string) (*fleet.VM, error) {
	return f.refreshTable(func() []string {
		if _, stale := f.stale[name]; stale {
			return []string{name}
		}
		return nil
	}).Get(name)
}

// Rights returns what a decision about a VM depends on.
func (f *Fleet) Rights(vm *fleet.VM) access.VM {
	f.mu.Lock()
	rights, known := f.rights[vm.Name]
	f.mu.Unlock()
	if known {
		return rights
	}
	if vm.Brief { // whether one may see it depends on nothing else
		permissions, err := f.opts.Store.Permissions(vm.Name)
		if err != nil {
			f.opts.Log.Error("the permissions of a VM are not known", "vm", vm.Name, "err", err)
		}
		rights := access.VM{Name: vm.Name, Permissions: permissions}
		if a := f.opts.Store.Pools().Assignment(vm.Name); a != nil {
			rights.Assignee, rights.Pool = a.User, f.PoolRights(a.Pool)
		}
		return rights
	}
	if made := f.decodeVM(vm.Name); made.vm != nil { // it has been kept by a page for longer than here
		return made.rights
	}
	return access.VM{Name: vm.Name}
}

// refreshTable decodes the VMs again that choose names, which is called with the lock held, and
// returns the table.
func (f *Fleet) refreshTable(choose func() []string) *fleet.Table {
	f.making.Lock()
	defer f.making.Unlock()
	f.mu.Lock()
	f.keepTable()
	names, table := choose(), f.table
	for _, name := range names {
		delete(f.stale, name) // if it changes from now on, it is stale again
	}
	f.mu.Unlock()
	made := f.makeAll(names)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, name := range names {
		if made[i].vm == nil {
			table.Remove(name)
			delete(f.rights, name)
			continue
		}
		table.Put(made[i].vm)
		f.rights[name] = made[i].rights
	}
	return table
}

// keepTable makes the table if there is none, and lets it be for some time. It is called with
// both locks held.
func (f *Fleet) keepTable() {
	if f.table != nil {
		f.idle.Reset(idleTime)
		return
	}
	f.table, f.rights, f.stale = &fleet.Table{}, map[string]access.VM{}, map[string]struct{}{}
	for _, name := range f.opts.Store.Names() {
		f.stale[name] = struct{}{}
	}
	f.idle = time.AfterFunc(idleTime, f.releaseTable)
}

// releaseTable frees the memory of a table that no page has asked for.
func (f *Fleet) releaseTable() {
	f.making.Lock()
	defer f.making.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.table, f.rights, f.stale = nil, nil, nil
}

// made is a VM that was decoded; nil if there is none.
type made struct {
	vm     *fleet.VM
	rights access.VM
}

// fewDecoded is how many VMs one processor decodes at least.
const fewDecoded = 64

// makeAll decodes VMs: many by all processors.
func (f *Fleet) makeAll(names []string) []made {
	all := make([]made, len(names))
	var working sync.WaitGroup
	each := max(fewDecoded, (len(names)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for part := range slices.Chunk(all, each) {
		part, of := part, names[:len(part)]
		names = names[len(part):]
		working.Go(func() {
			for i, name := range of {
				part[i] = f.decodeVM(name)
			}
		})
	}
	working.Wait()
	return all
}

// decodeVM decodes a VM.
func (f *Fleet) decodeVM(name string) made {
	vm, err := f.opts.Store.VM(name)
	if err != nil {
		f.opts.Log.Error("a VM can't be shown", "vm", name, "err", err)
	}
	if vm == nil || err != nil {
		return made{}
	}
	pod, err := f.opts.Store.Pod(name)
	if err != nil {
		f.opts.Log.Error("the pod of a VM can't be shown", "vm", name, "err", err)
	}
	ops, err := f.opts.Store.Operations(name)
	if err != nil {
		f.opts.Log.Error("the operations of a VM can't be shown", "vm", name, "err", err)
	}
	vm = f.withClass(vm, pod)
	shown := newView(vm, pod, ops)
	shown.Volumes, shown.Snapshots = f.volumesOf(vm, shown.State.Up()), f.snapshotsOf(name)
	shown.Assigned = f.assignedTo(vm)
	rights := rightsOf(vm)
	if a := vm.Status.Assignment; a != nil {
		rights.Assignee, rights.Pool = a.User, f.PoolRights(a.Pool)
	}
	return made{shown, rights}
}

// shownOperations returns the operations of a VM as they are shown.
func shownOperations(all []*v1.VirtualMachineOperation) (shown []fleet.Operation) {
	for _, o := range all {
		shown = append(shown, fleet.Operation{
			Name: o.Name, Type: string(o.Spec.Type), Force: o.Spec.Force,
			By: apply.Requester(o), Since: o.CreationTimestamp.UTC(),
			Phase: string(o.Status.Phase), Reason: o.Status.Reason, Message: o.Status.Message,
		})
	}
	slices.SortFunc(shown, func(a, b fleet.Operation) int {
		return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.Name, b.Name))
	})
	return shown
}

// withClass returns a VM with what its class gives it.
func (f *Fleet) withClass(vm *v1.VirtualMachine, pod *corev1.Pod) *v1.VirtualMachine {
	var config *objects.Metadata
	var err error
	if vm.Spec.VirtualMachineClassName != "" || vm.Status.VirtualMachineClassName != "" {
		config, err = f.opts.Store.Metadata(objects.KindConfigMap, vm.Name)
	}
	whole, _, resolveErr := decide.Resolve(vm, pod, config, f.opts.Store)
	if err = errors.Join(err, resolveErr); err != nil {
		f.opts.Log.Error("what a VM has of its class can't be shown", "vm", vm.Name, "err", err)
		return vm
	}
	return whole
}
