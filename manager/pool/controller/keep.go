package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/operation/act"
	"vmop/manager/pool"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// Delays of the loop: changes are batched, and failures are retried.
const (
	together   = 300 * time.Millisecond
	retryTime  = 15 * time.Second
	againTime  = time.Minute // before retrying an operation, or the creation of VMs
	longestSay = 4096
)

// Start implements manager.Runnable. While this manager leads, it maintains the pools.
func (c *Controller) Start(ctx context.Context) error {
	if c.opts.VMs.Await(ctx) != nil {
		return nil // ctx is done
	}
	for {
		var timer <-chan time.Time
		if again := c.maintainPools(ctx); !again.IsZero() {
			timer = time.After(max(together, again.Sub(c.opts.Now())))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.opts.Pools.Changed():
		case <-timer:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(together):
		}
	}
}

// maintainPools maintains all pools, and returns when to look again. Zero means after the next change.
func (c *Controller) maintainPools(ctx context.Context) (again time.Time) {
	if why := c.opts.Pools.Unavailable(); why != "" {
		if why != c.said {
			log.FromContext(ctx).Info("pools: " + why)
		}
		c.said = why
		return again
	}
	next := func(at time.Time) {
		if !at.IsZero() && (again.IsZero() || at.Before(again)) {
			again = at
		}
	}
	all := c.opts.Pools.Members()
	for _, change := range pool.Orphans(all, func(name string) bool { return c.opts.Pools.Pool(name) != nil }) {
		if _, err := c.changeAssignment(ctx, change, ""); err != nil {
			next(c.logFailure(ctx, "", err))
		}
	}
	for _, p := range c.opts.Pools.All() {
		at, err := c.keepOne(ctx, p, all)
		next(at)
		if err != nil {
			next(c.logFailure(ctx, p.Name, err))
		}
	}
	return again
}

// logFailure logs a failure, and returns when to retry.
func (c *Controller) logFailure(ctx context.Context, pool string, err error) time.Time {
	if ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "a pool is not as it should be", "pool", pool)
	}
	return c.opts.Now().Add(retryTime)
}

// keepOne maintains a pool.
func (c *Controller) keepOne(ctx context.Context, of *v1.VmPool, all []pool.Member) (again time.Time, err error) {
	if of.DeletionTimestamp != nil {
		return again, nil // its VMs are released when it is gone
	}
	p, err := pool.Of(of)
	if err != nil {
		return again, errors.Join(err, c.publishPool(ctx, of, of.Status, err.Error()))
	}
	now := c.opts.Now()
	plan := p.Plan(all, now)
	var problems []error
	for _, change := range plan.Changes {
		_, err := c.changeAssignment(ctx, change, "")
		problems = append(problems, err)
	}
	problems = append(problems, c.operateVMs(ctx, p, plan.Start, v1.OperationStart),
		c.operateVMs(ctx, p, plan.Stop, v1.OperationStop))
	for _, m := range plan.Delete {
		problems = append(problems, c.removeVM(ctx, m))
	}
	problems = append(problems, c.makeDisks(ctx, p, all))
	if plan.Make > 0 {
		var wait time.Time
		plan.Status.Made, wait, err = c.makeVMs(ctx, p, all, plan.Make)
		problems = append(problems, err)
		plan.LookAt(wait)
	}
	if len(plan.Start)+len(plan.Stop) > 0 {
		plan.LookAt(now.Add(againTime))
	}
	err = errors.Join(problems...)
	message := ""
	switch {
	case err != nil:
		message = err.Error()
	case plan.Status.VMs == 0:
		message = "the pool has no VM: name it in spec.pools of VMs, or give it a template and replicas"
	case plan.Status.Free == 0:
		message = "none of the VMs is free"
	}
	return plan.Again, errors.Join(err, c.publishPool(ctx, of, plan.Status, message))
}

// publishPool writes the status of a pool, if it has changed.
func (c *Controller) publishPool(ctx context.Context, of *v1.VmPool, is v1.VmPoolStatus, message string) error {
	is.Message = decide.Shorten(message, longestSay)
	if equality.Semantic.DeepEqual(is, of.Status) {
		return nil
	}
	into := &v1.VmPool{ObjectMeta: metav1.ObjectMeta{Name: of.Name, Namespace: of.Namespace}}
	err := publish.Status(ctx, c.opts.Client, of, into, is)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil // the watch delivers it
	}
	if err != nil {
		return fmt.Errorf("write the status of the pool %s: %w", of.Name, err)
	}
	return nil
}

// mayTry reports whether something may be tried now, at most once per againTime, and records the attempt.
func (c *Controller) mayTry(what string) bool {
	now := c.opts.Now()
	for key, at := range c.tried {
		if now.Sub(at) > againTime {
			delete(c.tried, key)
		}
	}
	if _, tried := c.tried[what]; tried {
		return false
	}
	c.tried[what] = now
	return true
}

// operateVMs creates operations that start or stop VMs, except for VMs with an unfinished operation.
func (c *Controller) operateVMs(ctx context.Context, p pool.Pool, vms []pool.Member, kind v1.OperationType) error {
	for _, m := range vms {
		have, err := c.opts.VMs.Operations(m.Name)
		if err != nil {
			return err
		}
		unfinished := func(o *v1.VirtualMachineOperation) bool { return !o.Status.Phase.Finished() }
		if slices.ContainsFunc(have, unfinished) || !c.mayTry(string(kind)+"/"+string(m.UID)) {
			continue
		}
		what := v1.VirtualMachineOperationSpec{Type: kind, VirtualMachineName: m.Name}
		o := act.NewOperation(c.opts.Namespace, "", what)
		o.GenerateName += "by-pool-" // events show it
		o.Labels = map[string]string{v1.LabelPool: p.Name}
		if err := c.opts.Client.Create(ctx, o, publish.Owner); err != nil {
			return fmt.Errorf("%s VM %s: %w", kind, m.Name, err)
		}
	}
	return nil
}

// removeVM deletes a VM that the pool created, with its volumes. The VM has been released, so no user can get it.
func (c *Controller) removeVM(ctx context.Context, m pool.Member) error {
	vm, err := c.opts.VMs.VM(m.Name)
	if err != nil || vm == nil || vm.UID != m.UID {
		return err
	}
	owner := metav1.NewControllerRef(vm, v1.GroupVersion().WithKind("VirtualMachine"))
	owner.Controller, owner.BlockOwnerDeletion = nil, nil
	for _, name := range objects.ClaimNames(vm) {
		is, err := c.opts.VMs.Metadata(objects.KindClaim, name)
		if err != nil {
			return err
		}
		if is == nil || is.Labels[objects.LabelInstance] != m.Name {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		claim.Name, claim.Namespace = name, c.opts.Namespace
		patch := client.RawPatch(types.MergePatchType, ownedBy(is.UID, *owner))
		err = c.opts.Client.Patch(ctx, claim, patch, publish.Owner)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("make PersistentVolumeClaim %s go with VM %s: %w", name, m.Name, err)
		}
	}
	err = c.opts.Client.Delete(ctx, vm, client.Preconditions{UID: &m.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete VM %s: %w", m.Name, err)
	}
	return nil
}
