package controller

import (
	"maps"
	"slices"
	"sync"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
)

// wanted records which VMs are waiting for which disks before they start, and where these VMs can run. It is kept in
// memory only: when a manager starts, it looks at all VMs.
type wanted struct {
	mu sync.Mutex
	by map[string]map[string]disk.Place // by disk, then by VM
}

// setWanted records that a VM is waiting for these disks, and returns the disks that are new in the list.
func (w *wanted) setWanted(vm string, disks []string, place disk.Place) (more []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, vms := range w.by {
		if !slices.Contains(disks, name) {
			if delete(vms, vm); len(vms) == 0 {
				delete(w.by, name)
			}
		}
	}
	for _, name := range disks {
		if _, had := w.by[name][vm]; !had {
			more = append(more, name)
		}
		if w.by[name] == nil {
			w.by[name] = map[string]disk.Place{}
		}
		w.by[name][vm] = place
	}
	return more
}

// placeFor returns where the first VM that waits for a disk can run, and whether such a VM exists.
func (w *wanted) placeFor(name string) (p disk.Place, wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, vm := range slices.Sorted(maps.Keys(w.by[name])) {
		return w.by[name][vm], true
	}
	return p, false
}

// waitForDisks records that a VM is waiting for its incomplete disks, and looks at these disks.
func (c *Controller) waitForDisks(vm *v1.VirtualMachine, refs []objects.DeviceRef) {
	var missing, claims []string
	for _, ref := range refs {
		d, err := c.diskNamed(ref.Kind, ref.Name)
		if err != nil || d == nil {
			continue
		}
		if d.Status.Target.UID != "" {
			claims = append(claims, disk.ClaimOf(d))
		}
		if ref.Kind == v1.KindVirtualDisk && !disk.Whole(d) && vm.Spec.DesiredState() == v1.Running {
			missing = append(missing, d.Name)
		}
	}
	place := objects.PlaceOf(vm)
	place.Claims = claims
	c.requests.Enqueue(c.wanted.setWanted(vm.Name, missing, place)...)
}

// stopWaiting records that a VM no longer waits for disks.
func (c *Controller) stopWaiting(vm string) { c.wanted.setWanted(vm, nil, disk.Place{}) }
