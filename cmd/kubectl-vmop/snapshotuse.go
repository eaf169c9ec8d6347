package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// checkUnused reports what is being made of a snapshot, which needs it until its volumes are there.
func (c *cluster) checkUnused(ctx context.Context, s anySnapshot) error {
	user, err := c.userOf(ctx, s)
	if err != nil {
		return hinted{
			fmt.Errorf("find what is being made of the snapshot %s: %w", s.name, err),
			"--force removes it without that",
		}
	}
	if user == "" {
		return nil
	}
	return hinted{
		fmt.Errorf("snapshot %s is in use: %s", s.name, user),
		"wait until that is done; --force removes the snapshot all the same, and what isn't made yet never will be",
	}
}

// userOf says what is being made of a snapshot; "" if nothing is.
func (c *cluster) userOf(ctx context.Context, s anySnapshot) (string, error) {
	disks, err := c.disks.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, d := range disks.Items {
		if s.feeds(d.Spec.DataSource, d.Status.Phase) {
			return fmt.Sprintf("the disk %s is being made of it (%s)", d.Name, d.Status.Phase), nil
		}
	}
	images, err := c.images.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, i := range images.Items {
		if s.feeds(&i.Spec.DataSource, i.Status.Phase) {
			return fmt.Sprintf("the image %s is being made of it (%s)", i.Name, i.Status.Phase), nil
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
		claim, err := c.unfilled(ctx, &vms.Items[i])
		if err != nil || claim != "" {
			return fmt.Sprintf("the VM %s is being made of it (the claim %s has no volume yet)",
				vms.Items[i].Name, claim), err
		}
	}
	return "", nil
}

// feeds reports whether something with a source and a phase is being made of the snapshot.
func (s anySnapshot) feeds(source *v1.VirtualDiskSource, phase v1.DiskPhase) bool {
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

// unfilled returns a claim of a VM that has no volume yet; "" if there is none.
func (c *cluster) unfilled(ctx context.Context, vm *v1.VirtualMachine) (string, error) {
	claims, err := c.claims(ctx, vm.Name)
	if err != nil {
		return "", err
	}
	bound := map[string]bool{}
	for _, claim := range claims {
		bound[claim.Name] = claim.Status.Phase == corev1.ClaimBound
	}
	names := objects.ClaimNames(vm) // two for each volume, of which one is used
	for i := 0; i+1 < len(names); i += 2 {
		if !bound[names[i]] && !bound[names[i+1]] {
			return names[i], nil
		}
	}
	return "", nil
}
