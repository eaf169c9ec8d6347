package vm

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/apply"
)

// memory is what is remembered of a VM from one reconciliation to the next.
type memory struct {
	uid     types.UID
	writing apply.Memory
	poll    *poll // why it doesn't start
}

// memories are those of all VMs, by name.
type memories struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*memory
}

// of returns what is remembered of a VM. The controller reconciles a VM in one goroutine at
// a time, which is the only one that uses the memory.
func (m *memories) of(vm *v1.VirtualMachine) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(vm)
	if have := m.all[key]; have != nil && have.uid == vm.UID {
		return have
	}
	fresh := &memory{uid: vm.UID}
	m.all[key] = fresh
	return fresh
}

func (m *memories) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
}
