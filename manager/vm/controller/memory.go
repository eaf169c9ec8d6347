package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/apply"
)

// memory contains what is remembered about a VM from one reconciliation to the next.
type memory struct {
	uid     types.UID
	writing apply.Memory
	poll    *poll // the question why it doesn't start
}

// memories contains the memory of each VM, by name.
type memories struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*memory
}

// memoryOf returns the memory of a VM. The controller reconciles a VM in a single goroutine at a time, and only this
// goroutine uses the memory.
func (m *memories) memoryOf(vm *v1.VirtualMachine) *memory {
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

func (m *memories) forgetVM(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
}
