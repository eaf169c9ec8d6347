package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/pool"
)

// Pools stores the pools of one namespace, and the VMs that are in a pool. A manager works without pools. It is
// safe for concurrent use.
type Pools struct {
	namespace string
	vms       *Store
	pools     *few[*v1.VmPool]
	shown     []func(vms ...string)
	wake      chan struct{}

	mu      sync.Mutex // guards the following fields
	members map[string]pool.Member
}

// newPools returns an empty store, for the VMs of a Store.
func newPools(namespace string, vms *Store) *Pools {
	s := &Pools{namespace: namespace, vms: vms, wake: make(chan struct{}, 1), members: map[string]pool.Member{}}
	changed := func(was, is *v1.VmPool) {
		var given []string // the pool determines their logged-in users and permissions
		if was == nil || is == nil || was.Generation != is.Generation {
			given = s.givenBy(presentOf(was, is).Name)
			vms.enqueueVMs(given...)
		}
		s.wakeVMs(given...)
	}
	s.pools = newFew(func(p *v1.VmPool) { p.ManagedFields = nil }, changed, func() { s.wakeVMs() })
	vms.OnChange(s.vmChanged)
	return s
}

// OnChange registers show, which is called when a pool or a VM in a pool has changed, with the names of the VMs
// that must be shown again. show must return quickly. OnChange must be called before Follow.
func (s *Pools) OnChange(show func(vms ...string)) { s.shown = append(s.shown, show) }

// givenBy returns the names of the VMs that are assigned to users from a pool.
func (s *Pools) givenBy(pool string) (vms []string) {
	for _, m := range s.Members() {
		if m.Assignment != nil && m.Assignment.Pool == pool {
			vms = append(vms, m.Name)
		}
	}
	return vms
}

func (s *Pools) wakeVMs(vms ...string) {
	for _, show := range s.shown {
		show(vms...)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Changed returns a channel that receives after changes. Several changes may send only one value.
func (s *Pools) Changed() <-chan struct{} { return s.wake }

// vmChanged updates the membership of a VM.
func (s *Pools) vmChanged(name string) {
	s.mu.Lock()
	_, was := s.members[name]
	if !was && !s.vms.Pooled(name) {
		s.mu.Unlock()
		return
	}
	vm, err := s.vms.VM(name) // may be newer than the reported change, which does no harm
	switch {
	case err != nil: // keep the known state if the VM can't be read
	case vm == nil || !pool.Concerns(vm):
		delete(s.members, name)
	default:
		s.members[name] = pool.MemberOf(vm)
	}
	s.mu.Unlock()
	s.wakeVMs()
}

// Pool returns a pool, or nil if it does not exist. Callers must not change it.
func (s *Pools) Pool(name string) *v1.VmPool { return s.pools.getObject(name) }

// All returns the pools, sorted by name. Callers must not change them.
func (s *Pools) All() []*v1.VmPool {
	all := s.pools.listObjects()
	slices.SortFunc(all, func(a, b *v1.VmPool) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Members returns the VMs that are in pools or are assigned, sorted by name.
func (s *Pools) Members() []pool.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]pool.Member, 0, len(s.members))
	for _, m := range s.members {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b pool.Member) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Assignment returns the assignment of a VM, or nil if the VM is not assigned.
func (s *Pools) Assignment(vm string) *v1.Assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members[vm].Assignment
}

// Unavailable returns the reason why pools are not known, or "".
func (s *Pools) Unavailable() string { return s.pools.whyUnknown() }

// followPools keeps the pools in sync with the API server until ctx is done.
func (s *Pools) followPools(ctx context.Context, from client.WithWatch) {
	followFew(ctx, from, s.pools, &v1.VmPool{}, func() client.ObjectList { return &v1.VmPoolList{} },
		client.InNamespace(s.namespace))
}
