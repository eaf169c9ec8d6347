package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// claimPause is how long the result of a search for writers of a source claim stays valid. A search lists the pods of
// the namespace.
const claimPause = 10 * time.Second

// podPage is the page size when listing pods.
const podPage = 200

// A sight is a source claim as seen at a point in time, for one copy.
type sight struct {
	of types.UID // UID of the copy
	at time.Time
	is *v1.VirtualDisk
}

// claimOrigin returns the claim that a disk copies, as a disk; nil if it doesn't exist. copier is the copying pod; nil
// if it doesn't exist. Before that pod starts and after it has ended, the API server is asked; otherwise a recent
// result is used.
func (c *Controller) claimOrigin(ctx context.Context, d *v1.VirtualDisk, copier *corev1.Pod) (*v1.VirtualDisk, error) {
	fresh := copier != nil && !disk.Runs(copier)
	c.mu.Lock()
	last := c.seen[d.Name]
	c.mu.Unlock()
	if !fresh && last.of == d.UID && c.opts.Now().Sub(last.at) < claimPause {
		return last.is, nil
	}
	last = sight{of: d.UID, at: c.opts.Now()}
	var claim corev1.PersistentVolumeClaim
	key := client.ObjectKey{Namespace: c.opts.Namespace, Name: disk.SourceClaim(d)}
	err := c.opts.Live.Get(ctx, key, &claim)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, fmt.Errorf("look for the claim %s: %w", key.Name, err)
	default:
		user, err := c.writerOf(ctx, &claim, copier != nil && !disk.Gated(copier))
		if err != nil {
			return nil, err
		}
		last.is = disk.ClaimAsDisk(&claim, user)
	}
	c.mu.Lock()
	c.seen[d.Name] = last
	c.mu.Unlock()
	return last.is, nil
}

// writerOf returns the VM or pod that may write to a claim that belongs to no disk; "" if there is no writer. begun
// reports that the copy has begun. Until then a VM that should run counts as a writer; afterwards that VM waits.
func (c *Controller) writerOf(ctx context.Context, claim *corev1.PersistentVolumeClaim, begun bool) (string, error) {
	vm := claim.Labels[objects.LabelInstance]
	if !begun && vm != "" && claim.Labels[objects.LabelName] == objects.AppName {
		is, err := c.opts.VMs.VM(vm)
		if err != nil {
			return "", err
		}
		if is != nil && is.Spec.DesiredState() == v1.Running && slices.Contains(objects.ClaimNames(is), claim.Name) {
			return "the VM " + vm + ", which is about to start", nil
		}
		mounts := func(pod *corev1.PodSpec) bool { return objects.Mounts(pod, claim.Name) }
		mounted, settled, err := c.mountedBy(ctx, vm, mounts)
		if err != nil {
			return "", err
		}
		if mounted || !settled {
			return "the VM " + vm, nil
		}
	}
	for next := ""; ; {
		var pods corev1.PodList
		err := c.opts.Live.List(ctx, &pods,
			client.InNamespace(c.opts.Namespace), client.Limit(podPage), client.Continue(next))
		if err != nil {
			return "", fmt.Errorf("look for pods with the claim %s: %w", claim.Name, err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if !disk.Finished(pod) && !(begun && disk.Gated(pod)) && objects.Writes(&pod.Spec, claim.Name) {
				return "the pod " + pod.Name, nil
			}
		}
		if next = pods.Continue; next == "" {
			return "", nil
		}
	}
}

// waitForCopies keeps a VM that should run waiting while a copy of one of its claims is being made. The status of a
// copy shows that the copy has begun before [Controller.writerOf] looks for VMs that should run. So if a VM and a copy
// begin at the same time, at least one of them waits.
func (c *Controller) waitForCopies(vm *v1.VirtualMachine, claims []objects.Claim) (did decide.Report) {
	if vm.Spec.DesiredState() != v1.Running {
		return did
	}
	for _, claim := range claims {
		for _, of := range []*Controller{c.disks, c.images} {
			for _, name := range of.book.CopiesOf(claim.Name) {
				text := "the claim %s is being copied into the %s %s: the VM starts when that is done"
				did.Stop(decide.Waiting{
					Reason: disk.ReasonCopied, Message: fmt.Sprintf(text, claim.Name, of.kind, name),
					Until: c.opts.Now().Add(sourceRetry),
				}, nil)
			}
		}
	}
	return did
}
