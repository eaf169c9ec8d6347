package fleet

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// A Table contains the VMs of a fleet. Its zero value is empty. Its methods are safe for concurrent use.
type Table struct {
	mutex   sync.Mutex
	vms     map[string]*VM
	sorted  []*VM // nil until List sorts the VMs
	changed chan struct{}
}

// Put adds a VM, or replaces the VM with its name.
func (t *Table) Put(vm *VM) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.vms == nil {
		t.vms = map[string]*VM{}
	}
	sorted := t.sorted
	if at, known := slices.BinarySearchFunc(sorted, vm.Name, byName); known {
		sorted = slices.Clone(sorted) // readers use the old slice
		sorted[at] = vm
	} else {
		sorted = nil
	}
	t.vms[vm.Name] = vm
	t.hasChanged(sorted)
}

func byName(vm *VM, name string) int { return strings.Compare(vm.Name, name) }

// Remove removes a VM.
func (t *Table) Remove(name string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if _, known := t.vms[name]; known {
		delete(t.vms, name)
		t.hasChanged(nil)
	}
}

// Touch reports a change outside of the table, such as of a Storage.
func (t *Table) Touch() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.hasChanged(t.sorted)
}

func (t *Table) hasChanged(sorted []*VM) {
	t.sorted = sorted
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// List returns the VMs, sorted by name. Don't modify the slice.
func (t *Table) List() []*VM {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.sorted == nil {
		t.sorted = slices.SortedFunc(maps.Values(t.vms), func(a, b *VM) int { return strings.Compare(a.Name, b.Name) })
	}
	return t.sorted
}

// Outline is the same as List, as a Table has no slow parts.
func (t *Table) Outline() []*VM { return t.List() }

// Whole returns the VMs unchanged.
func (t *Table) Whole(vms []*VM) []*VM { return vms }

// Get returns a VM, or ErrNotFound.
func (t *Table) Get(name string) (*VM, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if vm := t.vms[name]; vm != nil {
		return vm, nil
	}
	return nil, ErrNotFound
}

// Changed returns a channel that is closed at the next change.
func (t *Table) Changed() <-chan struct{} {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// Storage returns nil: a Table has no disks.
func (t *Table) Storage() Storage { return nil }

// Attachments returns nil, like the following methods: a Table can't change VMs.
func (t *Table) Attachments() Attachments { return nil }

// Snapshots returns nil.
func (t *Table) Snapshots() Snapshots { return nil }

// Restores returns nil.
func (t *Table) Restores() Restores { return nil }

// Copies returns nil.
func (t *Table) Copies() Copies { return nil }

// Autostarts returns nil.
func (t *Table) Autostarts() Autostarts { return nil }

// DataDeletion returns nil.
func (t *Table) DataDeletion() DataDeletion { return nil }

// Used returns the total size of all guests.
func (t *Table) Used() Use { return UseOf(t.List()) }

// Pools returns nil: a Table has no pools.
func (t *Table) Pools() Pools { return nil }
