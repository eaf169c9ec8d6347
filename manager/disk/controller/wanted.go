package controller

import (
	"maps"
	"slices"
	"sync"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
)

// wanted are the disks that VMs wait for that are to run, and where these VMs can run. It is
// remembered here only: a manager that begins looks at all VMs.
type wanted struct {
	mu sync.Mutex
	by map[string]map[string]disk.Place // by disks, and by VMs
}

// setWanted notes what a VM waits for, and returns the disks that it didn't wait for before.
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

// placeFor returns where the first VM can run that waits for a disk.
func (w *wanted) placeFor(name string) (p disk.Place, wanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, vm := range slices.Sorted(maps.Keys(w.by[name])) {
		return w.by[name][vm], true
	}
	return p, false
}

// waitForDisks notes which disks a VM waits for whose data isn't there, and looks at them.
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

// stopWaiting notes that a VM waits for no disk.
func (c *Controller) stopWaiting(vm string) { c.wanted.setWanted(vm, nil, disk.Place{}) }
