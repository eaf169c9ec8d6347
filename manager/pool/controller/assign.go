package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/pool"
	"vmop/manager/store"
	"vmop/manager/store/publish"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// VMs gives access to the VMs of the namespace.
type VMs interface {
	// VM returns a VM; nil if it doesn't exist.
	VM(name string) (*v1.VirtualMachine, error)
	// LearnVM stores the VM that a write returned.
	LearnVM(vm *v1.VirtualMachine) error
	// Operations returns the operations that name a VM.
	Operations(vm string) ([]*v1.VirtualMachineOperation, error)
	// Metadata returns the metadata of a VM's object; nil if it doesn't exist.
	Metadata(k objects.Kind, name string) (*objects.Metadata, error)
	// Await waits until all objects are known.
	Await(ctx context.Context) error
}

// Disks gives access to the disks of the namespace.
type Disks interface {
	// Disk returns a disk; nil if it doesn't exist.
	Disk(name string) (*v1.VirtualDisk, error)
}

// Options configure a Controller.
type Options struct {
	Namespace string
	Pools     *store.Pools
	VMs       VMs
	Disks     Disks
	// Client writes.
	Client publish.Client
	// Instance is the name of this manager process in events.
	Instance string
	// Now is the clock.
	Now func() time.Time
}

// A Controller assigns VMs to users. Its methods are safe for concurrent use.
type Controller struct {
	opts  Options
	turn  chan struct{} // serializes claims, so that each sees the result of the previous claim
	tried map[string]time.Time
	said  string

	mu     sync.Mutex
	claims map[Result]int64
}

// New returns a controller.
func New(opts Options) *Controller {
	return &Controller{
		opts: opts, turn: make(chan struct{}, 1), tried: map[string]time.Time{}, claims: map[Result]int64{},
	}
}

// A Result is the result of a claim.
type Result string

// The results of claims.
const (
	resultAssigned Result = "assigned" // the user got a VM
	resultAgain    Result = "again"    // the user already had a VM
	resultNone     Result = "none"     // no VM is available
	resultFailed   Result = "failed"
)

// allResults returns all results.
func allResults() []Result { return []Result{resultAssigned, resultAgain, resultNone, resultFailed} }

// Claims returns the number of claims at this manager by result.
func (c *Controller) Claims() map[Result]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[Result]int64{}
	for _, r := range allResults() {
		counts[r] = c.claims[r]
	}
	return counts
}

// States counts the VMs of each pool by state.
func (c *Controller) States() map[string]map[pool.State]int {
	members, counts := c.opts.Pools.Members(), map[string]map[pool.State]int{}
	for _, is := range c.opts.Pools.All() {
		p, err := pool.Of(is)
		if err != nil {
			continue
		}
		states := map[pool.State]int{}
		for _, state := range pool.States() {
			states[state] = 0
		}
		for _, m := range members {
			if m.In(p.Name) {
				states[p.StateOf(m, c.opts.Now())]++
			}
		}
		counts[p.Name] = states
	}
	return counts
}

var (
	// ErrNoPool means that no pool with that name is known.
	ErrNoPool = errors.New("there is no such pool")
	// ErrNone means that no VM of the pool is available.
	ErrNone = errors.New("none of the pool's VMs is free")
	// ErrNotAssigned means that the VM has no user.
	ErrNotAssigned = errors.New("the VM is not assigned to a user")
)

// Claim assigns a VM of the pool name to a user, and returns the VM's name. mine reports that the user already had the
// VM. The caller must have checked that the user may use the pool. It returns ErrNoPool if the pool is unknown, and
// ErrNone if no VM is available.
func (c *Controller) Claim(ctx context.Context, user, name string) (vm string, mine bool, err error) {
	result := resultFailed
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.claims[result]++
	}()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", false, context.Cause(ctx)
	}
	for {
		p, err := c.poolNamed(name)
		if err != nil {
			return "", false, err
		}
		one, mine := p.Choose(c.opts.Pools.Members(), user, c.opts.Now())
		switch {
		case one == nil:
			result = resultNone
			return "", false, ErrNone
		case mine && one.In(name):
			result = resultAgain
			return one.Name, true, c.noteUse(ctx, *one)
		}
		changed, err := c.changeAssignment(ctx, p.Give(*one, user, c.opts.Now()), user)
		if err != nil {
			return "", false, err
		}
		if changed {
			result = resultAssigned
			return one.Name, false, nil
		}
		if err := c.awaitWatch(ctx, *one); err != nil {
			return "", false, err
		}
	}
}

// noteUse records that a user has come back to a VM, which extends its retention.
func (c *Controller) noteUse(ctx context.Context, m pool.Member) error {
	to := *m.Assignment
	if now := c.opts.Now().Truncate(time.Second); now.After(to.LastUsed.Time) {
		to.LastUsed.Time = now
		// A conflict is ignored: the VM may have a different user now.
		_, err := c.changeAssignment(ctx, pool.Change{Member: m, To: &to}, "")
		return err
	}
	return nil
}

// poolNamed returns a pool by name.
func (c *Controller) poolNamed(name string) (pool.Pool, error) {
	if why := c.opts.Pools.Unavailable(); why != "" {
		return pool.Pool{}, fmt.Errorf("pools are not known: %s", why)
	}
	p := c.opts.Pools.Pool(name)
	if p == nil {
		return pool.Pool{}, ErrNoPool
	}
	return pool.Of(p)
}

// Release makes an assigned VM available again. by is the requesting user, for the event. It returns ErrNotAssigned if
// the VM has no user.
func (c *Controller) Release(ctx context.Context, by, vm string) error {
	for {
		is, err := c.opts.VMs.VM(vm)
		if err != nil {
			return err
		}
		if is == nil || is.Status.Assignment == nil || is.Status.Assignment.Released != nil {
			return ErrNotAssigned
		}
		m := pool.MemberOf(is)
		change := pool.Change{Member: m, Why: pool.Released}
		if p, err := c.poolNamed(m.Assignment.Pool); err == nil {
			change = p.Release(m, pool.Released, c.opts.Now())
		}
		if changed, err := c.changeAssignment(ctx, change, by); changed || err != nil {
			return err
		}
		if err := c.awaitWatch(ctx, m); err != nil {
			return err
		}
	}
}

// changeAssignment writes the assignment of a VM. It returns false if the VM has changed since it was read; the watch
// then delivers the new version.
func (c *Controller) changeAssignment(ctx context.Context, change pool.Change, by string) (changed bool, err error) {
	patch, err := change.Patch()
	if err != nil {
		return false, err
	}
	after := &v1.VirtualMachine{}
	after.Name, after.Namespace = change.Name, c.opts.Namespace
	err = c.opts.Client.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, patch), publish.Owner)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write who has VM %s: %w", change.Name, err)
	}
	if err := c.opts.VMs.LearnVM(after.DeepCopy()); err != nil {
		return false, err
	}
	c.recordChange(ctx, after, change, by)
	return true, nil
}

// awaitWatch waits until the watch delivers the new version of a changed VM, or its deletion.
func (c *Controller) awaitWatch(ctx context.Context, m pool.Member) error {
	wait, cancel := context.WithTimeout(ctx, hearTime)
	defer cancel()
	for {
		is, err := c.opts.VMs.VM(m.Name)
		if err != nil || is == nil || is.UID != m.UID || is.ResourceVersion != m.Version {
			return err
		}
		select {
		case <-wait.Done():
			return fmt.Errorf("VM %s has changed, and the manager has not heard of it yet: try again", m.Name)
		case <-time.After(hearStep):
		}
	}
}

// hearTime is the time limit for waiting for the watch, and hearStep the polling interval.
const hearTime, hearStep = 10 * time.Second, 10 * time.Millisecond

// recordChange writes an event about a user who got or lost a VM.
func (c *Controller) recordChange(ctx context.Context, vm *v1.VirtualMachine, change pool.Change, by string) {
	if change.Why == "" {
		return
	}
	now, note := c.opts.Now(), noteOf(change, by)
	e := publish.Event{
		Kind: "VirtualMachine", Key: change.Why + "/" + vm.ResourceVersion,
		Reason: change.Why, Action: "Assign", Note: note,
	}.Of(vm, now, c.opts.Instance)
	e.Labels = map[string]string{objects.LabelInstance: vm.Name, publish.LabelInitiator: decide.ByManager}
	if by != "" {
		e.Labels[publish.LabelInitiator] = decide.ByUser
		e.Annotations = map[string]string{publish.AnnotationUser: decide.User(by)}
	}
	e.Regarding.ResourceVersion = vm.ResourceVersion
	publish.Write(context.WithoutCancel(ctx), c.opts.Client, e)
}

// noteOf returns the text of the event about a change.
func noteOf(c pool.Change, by string) string {
	if c.Why == pool.Assigned {
		was := ""
		if c.Assignment != nil {
			was = fmt.Sprintf("; it was no longer kept for %s, who last used it at %s", decide.User(c.Assignment.User),
				c.Assignment.LastUsed.UTC().Format(time.RFC3339))
		}
		return fmt.Sprintf("%s was assigned the VM from the pool %s%s", decide.User(c.To.User), c.To.Pool, was)
	}
	user, from := decide.User(c.Assignment.User), c.Assignment.Pool
	text := fmt.Sprintf("%s no longer has the VM from the pool %s", user, from)
	switch c.Why {
	case pool.Released:
		text = fmt.Sprintf("%s has released the VM, which %s had from the pool %s", decide.User(by), user, from)
	case pool.Ended:
		text += ": the retention has ended"
	case pool.Left:
		text += ": it is no longer in it, or the pool is gone"
	case pool.Duplicate:
		text += ": they have another VM"
	}
	if s := c.Assignment.Since; s != nil {
		text += fmt.Sprintf("; had since %s, last used at %s", s.UTC().Format(time.RFC3339),
			c.Assignment.LastUsed.UTC().Format(time.RFC3339))
	}
	return text
}
