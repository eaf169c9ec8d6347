package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/pool"
	"vmop/manager/store/publish"
)

// ownedBy returns the patch that makes owner the only owner of an object, so that both are deleted together.
func ownedBy(uid types.UID, owner metav1.OwnerReference) []byte {
	text, _ := json.Marshal(map[string]any{ // strings always marshal
		"metadata": map[string]any{"uid": uid, "ownerReferences": []metav1.OwnerReference{owner}},
	})
	return text
}

// makeVMs creates VMs from the pool's template. It returns the highest number used so far, and when to try again. Zero
// means after the next change.
func (c *Controller) makeVMs(ctx context.Context, p pool.Pool, all []pool.Member, count int) (
	last int32, again time.Time, err error,
) {
	last = p.Status.Made
	attempt := "make/" + string(p.UID) + "/" + strconv.FormatInt(p.Generation, 10)
	if c.tried[attempt].After(c.opts.Now().Add(-againTime)) {
		return last, c.tried[attempt].Add(againTime), errors.New(p.Status.Message)
	}
	for _, m := range all {
		if text, is := strings.CutPrefix(m.Name, p.Name+"-"); is {
			if number, err := strconv.ParseInt(text, 10, 32); err == nil {
				last = max(last, int32(number))
			}
		}
	}
	for range count {
		vm := p.Machine(last + 1)
		free, err := c.hasNoDisks(vm)
		if err != nil {
			return last, again, err
		}
		if last++; !free {
			continue
		}
		err = c.opts.Client.Create(ctx, vm, publish.Owner)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			c.mayTry(attempt)
			return last - 1, c.opts.Now().Add(againTime), fmt.Errorf("make VM %s of the template: %w", vm.Name, err)
		}
		if err := c.opts.VMs.LearnVM(vm.DeepCopy()); err != nil {
			return last, again, err
		}
	}
	return last, again, nil
}

// hasNoDisks reports whether the disks of a new VM don't exist yet. Existing disks are not taken over.
func (c *Controller) hasNoDisks(vm *v1.VirtualMachine) (bool, error) {
	for _, ref := range vm.Spec.BlockDeviceRefs {
		if ref.Kind != v1.KindVirtualDisk || !strings.HasPrefix(ref.Name, vm.Name+"-") {
			continue
		}
		if is, err := c.opts.Disks.Disk(ref.Name); is != nil || err != nil {
			return false, err
		}
	}
	return true, nil
}

// makeDisks creates the disks of the pool's VMs. A disk is created after its VM, and deleted with it.
func (c *Controller) makeDisks(ctx context.Context, p pool.Pool, all []pool.Member) error {
	for _, m := range all {
		if m.Deleting {
			continue
		}
		for _, d := range p.Disks(m) {
			is, err := c.opts.Disks.Disk(d.Name)
			if err != nil {
				return err
			}
			if is != nil || !c.namesDisk(m, d.Name) || !c.mayTry("disk/"+d.Name) {
				continue
			}
			if err := c.opts.Client.Create(ctx, d, publish.Owner); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("make VirtualDisk %s of VM %s: %w", d.Name, m.Name, err)
			}
		}
	}
	return nil
}

// namesDisk reports whether a VM names a disk.
func (c *Controller) namesDisk(m pool.Member, disk string) bool {
	vm, err := c.opts.VMs.VM(m.Name)
	return err == nil && vm != nil && vm.UID == m.UID &&
		slices.ContainsFunc(vm.Spec.BlockDeviceRefs, func(r v1.BlockDeviceRef) bool {
			return r.Kind == v1.KindVirtualDisk && r.Name == disk
		})
}
