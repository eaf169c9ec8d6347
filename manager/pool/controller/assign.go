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

// VMs are what is known of the VMs of the namespace.
type VMs interface {
	// VM returns a VM, nil if there is none.
	VM(name string) (*v1.VirtualMachine, error)
	// LearnVM stores what a write of a VM has returned.
	LearnVM(vm *v1.VirtualMachine) error
	// Operations returns the operations that name a VM.
	Operations(vm string) ([]*v1.VirtualMachineOperation, error)
	// Metadata returns that of an object of a VM; nil if there is none.
	Metadata(k objects.Kind, name string) (*objects.Metadata, error)
	// Await waits until all objects are known.
	Await(ctx context.Context) error
}

// Disks are those of the namespace.
type Disks interface {
	// Disk returns a disk; nil if there is none of that name.
	Disk(name string) (*v1.VirtualDisk, error)
}

// Client writes objects, and their status.
type Client interface {
	client.Writer
	client.StatusClient
}

// Options are what a Controller needs.
type Options struct {
	Namespace string
	Pools     *store.Pools
	VMs       VMs
	Disks     Disks
	// Client writes.
	Client Client
	// Instance is the name of this manager's process in events.
	Instance string
	// Now is the clock.
	Now func() time.Time
}

// A Controller gives VMs to users. Its methods may be called by several goroutines.
type Controller struct {
	opts  Options
	turn  chan struct{} // has a place for the one who gives a VM away: others wait, and know what it did
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

// A Result is how a claim has ended.
type Result string

// The results of claims.
const (
	ResultAssigned Result = "assigned" // the user has got a VM
	ResultAgain    Result = "again"    // the user had one
	ResultNone     Result = "none"     // none is free
	ResultFailed   Result = "failed"
)

// Results returns all results.
func Results() []Result { return []Result{ResultAssigned, ResultAgain, ResultNone, ResultFailed} }

// Claims returns how many claims have ended how at this manager.
func (c *Controller) Claims() map[Result]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[Result]int64{}
	for _, r := range Results() {
		counts[r] = c.claims[r]
	}
	return counts
}

// States counts the VMs of each pool by their state.
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
	// ErrNoPool means that there is no pool of that name, or that it isn't known.
	ErrNoPool = errors.New("there is no such pool")
	// ErrNone means that all VMs of a pool are others'.
	ErrNone = errors.New("none of the pool's VMs is free")
	// ErrNotAssigned means that no user has a VM.
	ErrNotAssigned = errors.New("the VM is not assigned to a user")
)

// Claim gives a user a VM of a pool, and returns its name: the one that they have (mine), or another one. The
// caller has decided that they may.
func (c *Controller) Claim(ctx context.Context, user, name string) (vm string, mine bool, err error) {
	result := ResultFailed
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
			result = ResultNone
			return "", false, ErrNone
		case mine && one.In(name):
			result = ResultAgain
			return one.Name, true, c.noteUse(ctx, *one)
		}
		changed, err := c.changeAssignment(ctx, p.Give(*one, user, c.opts.Now()), user)
		if err != nil {
			return "", false, err
		}
		if changed {
			result = ResultAssigned
			return one.Name, false, nil
		}
		if err := c.awaitWatch(ctx, *one); err != nil {
			return "", false, err
		}
	}
}

// noteUse notes that a user comes back to a VM that they have, so that it is kept from now on.
func (c *Controller) noteUse(ctx context.Context, m pool.Member) error {
	to := *m.Assignment
	if now := c.opts.Now().Truncate(time.Second); now.After(to.LastUsed.Time) {
		to.LastUsed.Time = now
		// if it has changed, it may be another user's
		_, err := c.changeAssignment(ctx, pool.Change{Member: m, To: &to}, "")
		return err
	}
	return nil
}

// poolNamed returns a pool.
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

// Release makes a VM free that a user has. by is who wants it, for records.
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

// changeAssignment writes who has a VM, and reports whether the VM was as it had been looked at. If not, the watch
// brings what it is.
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

// awaitWatch waits until the watch has brought what a VM is that has changed, or that it is gone.
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

// How long it may take until the watch brings a change, and how often it is looked.
const hearTime, hearStep = 10 * time.Second, 10 * time.Millisecond

// recordChange writes an event about who has got or lost a VM.
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

// noteOf is the text of the event about a change.
func noteOf(c pool.Change, by string) string {
	if c.Why == pool.Assigned {
		was := ""
		if c.Assignment != nil {
			was = fmt.Sprintf("; it was no longer kept for %s, who last used it at %s", decide.User(c.Assignment.User),
				c.Assignment.LastUsed.UTC().Format(time.RFC3339))
		}
		return fmt.Sprintf("%s has got the VM from the pool %s%s", decide.User(c.To.User), c.To.Pool, was)
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
		text += ": they have another one"
	}
	if s := c.Assignment.Since; s != nil {
		text += fmt.Sprintf("; had since %s, last used at %s", s.UTC().Format(time.RFC3339),
			c.Assignment.LastUsed.UTC().Format(time.RFC3339))
	}
	return text
}
