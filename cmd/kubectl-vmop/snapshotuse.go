package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// checkUnused returns an error if an object is being created from a snapshot. The object needs the snapshot until
// its volumes exist.
func (c *cluster) checkUnused(ctx context.Context, s anySnapshot) error {
	user, err := c.snapshotUserOf(ctx, s)
	if err != nil {
		return hinted{
			fmt.Errorf("find what is being created from the snapshot %s: %w", s.name, err),
			"--force removes it without that",
		}
	}
	if user == "" {
		return nil
	}
	return hinted{
		fmt.Errorf("snapshot %s is in use: %s", s.name, user),
		"wait until that is done; --force removes the snapshot anyway, and unfinished copies are never completed",
	}
}

// snapshotUserOf describes the object that is being created from a snapshot, or returns "".
func (c *cluster) snapshotUserOf(ctx context.Context, s anySnapshot) (string, error) {
	disks, err := c.disks.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, d := range disks.Items {
		if s.feedsDisk(d.Spec.DataSource, d.Status.Phase) {
			return fmt.Sprintf("the disk %s is being created from it (%s)", d.Name, d.Status.Phase), nil
		}
	}
	images, err := c.images.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, i := range images.Items {
		if s.feedsDisk(&i.Spec.DataSource, i.Status.Phase) {
			return fmt.Sprintf("the image %s is being created from it (%s)", i.Name, i.Status.Phase), nil
		}
	}
	if s.ofDisk() {
		return "", nil
	}
	vms, err := c.vms.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range vms.Items {
		if source := vms.Items[i].Spec.DataSource; source == nil || source.Name != s.name {
			continue
		}
		claim, err := c.unfilledClaim(ctx, &vms.Items[i])
		if err != nil || claim != "" {
			return fmt.Sprintf("the VM %s is being created from it (the claim %s has no volume yet)",
				vms.Items[i].Name, claim), err
		}
	}
	return "", nil
}

// feedsDisk reports whether an object with a source and a phase is being created from the snapshot.
func (s anySnapshot) feedsDisk(source *v1.VirtualDiskSource, phase v1.DiskPhase) bool {
	if source == nil || source.ObjectRef == nil || source.ObjectRef.Name != s.name {
		return false
	}
	switch phase {
	case v1.DiskReady, v1.DiskResizing, v1.DiskFailed, v1.DiskTerminating:
		return false
	}
	return (source.ObjectRef.Kind == v1.KindVirtualDiskSnapshot) == s.ofDisk() &&
		(source.ObjectRef.Kind == v1.KindVMSnapshot) != s.ofDisk()
}

// unfilledClaim returns a claim of a VM without a volume, or "".
func (c *cluster) unfilledClaim(ctx context.Context, vm *v1.VirtualMachine) (string, error) {
	claims, err := c.claimsOf(ctx, vm.Name)
	if err != nil {
		return "", err
	}
	bound := map[string]bool{}
	for _, claim := range claims {
		bound[claim.Name] = claim.Status.Phase == corev1.ClaimBound
	}
	names := objects.ClaimNames(vm) // two for each volume, only one of them in use
	for i := 0; i+1 < len(names); i += 2 {
		if !bound[names[i]] && !bound[names[i+1]] {
			return names[i], nil
		}
	}
	return "", nil
}
