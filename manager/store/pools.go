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

// Pools has the pools of one namespace, and the VMs that are in any. A manager works without pools. Its methods
// may be called by several goroutines.
type Pools struct {
	namespace string
	vms       *Store
	pools     *few[*v1.VmPool]
	shown     []func(vms ...string)
	wake      chan struct{}

	mu      sync.Mutex // of what follows
	members map[string]pool.Member
}

// newPools returns one that is empty, of the VMs in a store.
func newPools(namespace string, vms *Store) *Pools {
	s := &Pools{namespace: namespace, vms: vms, wake: make(chan struct{}, 1), members: map[string]pool.Member{}}
	changed := func(was, is *v1.VmPool) {
		var given []string // who is logged in to them, and may do what, depends on the pool
		if was == nil || is == nil || was.Generation != is.Generation {
			given = s.givenBy(present(was, is).Name)
			vms.enqueue(given...)
		}
		s.signal(given...)
	}
	s.pools = newFew(func(p *v1.VmPool) { p.ManagedFields = nil }, changed, func() { s.signal() })
	vms.OnChange(s.vmChanged)
	return s
}

// OnChange makes it call what shows pools when one of them, or a VM in one, has changed, with the names of the VMs
// of which another thing is to be shown by that. It must return at once, and OnChange be called before Follow.
func (s *Pools) OnChange(show func(vms ...string)) { s.shown = append(s.shown, show) }

// givenBy returns the names of the VMs that users have from a pool.
func (s *Pools) givenBy(pool string) (vms []string) {
	for _, m := range s.Members() {
		if m.Assignment != nil && m.Assignment.Pool == pool {
			vms = append(vms, m.Name)
		}
	}
	return vms
}

func (s *Pools) signal(vms ...string) {
	for _, show := range s.shown {
		show(vms...)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Changed receives after changes, of several at least once.
func (s *Pools) Changed() <-chan struct{} { return s.wake }

// vmChanged looks at a VM again.
func (s *Pools) vmChanged(name string) {
	s.mu.Lock()
	_, was := s.members[name]
	if !was && !s.vms.Pooled(name) {
		s.mu.Unlock()
		return
	}
	vm, err := s.vms.VM(name) // what it has become since the call is as good
	switch {
	case err != nil: // of a VM that can't be read, what is known stays
	case vm == nil || !pool.Concerns(vm):
		delete(s.members, name)
	default:
		s.members[name] = pool.MemberOf(vm)
	}
	s.mu.Unlock()
	s.signal()
}

// Pool returns a pool, which must not be changed; nil if there is none of that name.
func (s *Pools) Pool(name string) *v1.VmPool { return s.pools.get(name) }

// All returns the pools, which must not be changed, sorted by their names.
func (s *Pools) All() []*v1.VmPool {
	all := s.pools.list()
	slices.SortFunc(all, func(a, b *v1.VmPool) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Members returns the VMs that are in pools or are assigned, sorted by their names.
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

// Assignment returns who has a VM; nil if no one has.
func (s *Pools) Assignment(vm string) *v1.Assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members[vm].Assignment
}

// Unavailable says why pools are not known; "" if they are.
func (s *Pools) Unavailable() string { return s.pools.why() }

// follow keeps the pools as the API server has them, until ctx is done.
func (s *Pools) follow(ctx context.Context, from client.WithWatch) {
	followFew(ctx, from, s.pools, &v1.VmPool{}, func() client.ObjectList { return &v1.VmPoolList{} },
		client.InNamespace(s.namespace))
}
