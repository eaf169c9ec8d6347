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

// Options configure a Fleet. All fields except Now are required.
type Options struct {
	// Namespace contains the VMs.
	Namespace string
	// Store contains the VMs and their pods. It must not be running yet.
	Store *store.Store
	// Volumes contains the disks of the namespace. It must not be running yet.
	Volumes store.Volumes
	// Client patches and deletes VMs, deletes pods, creates, lists and watches events, and lists storage classes. It
	// must not have a cache, as that would hold all these objects.
	Client client.WithWatch
	// Assign assigns VMs of pools to users.
	Assign *poolctl.Controller
	// Keys open connections to runners.
	Keys *stream.Keys
	// Types are the VM types.
	Types Types
	// Instance is the name of the manager process in events.
	Instance string
	// Log receives errors that don't stop an action.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// A Fleet contains the VMs of a namespace. Its methods are safe for concurrent use.
type Fleet struct {
	opts Options

	making sync.Mutex    // held while VMs are decoded
	heard  chan struct{} // one slot per page with an event watch

	mu      sync.Mutex // protects the following fields
	changed chan struct{}
	table   *fleet.Table         // nil after no page has asked for some time
	rights  map[string]access.VM // of the VMs in the table
	stale   map[string]struct{}  // names of VMs to decode again
	idle    *time.Timer
	filling bool // all VMs are being decoded
	classes keptClasses
}

var _ fleet.Fleet = (*Fleet)(nil)

// idleTime is how long VMs are cached without a request. It is longer than an open page ever waits.
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

// hasChanged records that the named VMs, their pods or their disks have changed. Without names, a disk without a VM has
// changed.
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

// fewStale is the maximum number of VMs to decode while a page waits. More are decoded in the background.
const fewStale = 256

// Outline implements fleet.Fleet. Usually the list is complete, or nearly so. If not, it is completed in the
// background, because the user first looks at the first VMs.
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
		go func() { // for the page's stream, which comes next
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

// fillTable decodes all stale VMs in small batches, so that pages that need one VM don't wait for all.
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

// noteFilled records that VMs are no longer being decoded. begun reports that the caller had started that.
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

// Rights returns the input for access decisions about a VM.
func (f *Fleet) Rights(vm *fleet.VM) access.VM {
	f.mu.Lock()
	rights, known := f.rights[vm.Name]
	f.mu.Unlock()
	if known {
		return rights
	}
	if vm.Brief { // suffices to decide who may see it
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
	if made := f.decodeVM(vm.Name); made.vm != nil { // a page has kept the VM longer than the cache
		return made.rights
	}
	return access.VM{Name: vm.Name}
}

// refreshTable decodes the VMs that choose returns, and returns the table. choose is called with the lock held.
func (f *Fleet) refreshTable(choose func() []string) *fleet.Table {
	f.making.Lock()
	defer f.making.Unlock()
	f.mu.Lock()
	f.keepTable()
	names, table := choose(), f.table
	for _, name := range names {
		delete(f.stale, name) // a later change marks it stale again
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

// keepTable creates the table if necessary, and restarts its idle timer. The caller must hold both locks.
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

// releaseTable frees an unused table.
func (f *Fleet) releaseTable() {
	f.making.Lock()
	defer f.making.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.table, f.rights, f.stale = nil, nil, nil
}

// made is the result of decoding a VM; vm is nil if it doesn't exist.
type made struct {
	vm     *fleet.VM
	rights access.VM
}

// fewDecoded is the minimum number of VMs per goroutine.
const fewDecoded = 64

// makeAll decodes VMs, in parallel if there are many.
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

// shownOperations converts the operations of a VM for pages.
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

// withClass returns a VM with the defaults from its class.
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
