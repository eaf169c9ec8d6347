package capture

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/manager/store"
	"vmop/runner/status"
)

// VMs are what is known of the VMs of the namespace.
type VMs interface {
	// VM returns a VM, nil if there is none; Pod the pod that its stateful set has made.
	VM(name string) (*v1.VirtualMachine, error)
	Pod(vm string) (*corev1.Pod, error)
	// Metadata returns that of an object of a VM; nil if there is none.
	Metadata(k objects.Kind, name string) (*objects.Metadata, error)
}

// Disks are those of the namespace.
type Disks interface {
	// Disk returns a disk; nil if there is none of that name.
	Disk(name string) (*v1.VirtualDisk, error)
}

// A Guest freezes its file systems. *control.Client is one.
type Guest interface {
	Freeze(ctx context.Context, limit time.Duration) (status.FreezeAnswer, error)
	Thaw(ctx context.Context) (status.FreezeAnswer, error)
}

// Client writes objects, and their status.
type Client interface {
	client.Writer
	client.StatusClient
}

// Options are what a Controller needs.
type Options struct {
	// Namespace whose snapshots are made.
	Namespace string
	VMs       VMs
	Disks     Disks
	// Client writes; Live reads from the API server.
	Client Client
	Live   client.Reader
	// Guest returns the guest that is running in the pod of a VM.
	Guest func(vm *v1.VirtualMachine, pod *corev1.Pod) (Guest, error)
	// Settings returns the present settings of the manager's configuration.
	Settings func() objects.Settings
	// Instance is the name of this manager's process in events.
	Instance string
	// Now is the clock.
	Now func() time.Time
}

// A Controller makes snapshots. Its methods may be called by several goroutines.
type Controller struct {
	maker
	queue

	book     *store.Snapshots
	attempts attempts
}

// A maker makes VolumeSnapshots.
type maker struct{ opts Options }

// New returns a controller that knows nothing yet.
func New(opts Options) *Controller {
	c := &Controller{maker: maker{opts}, attempts: attempts{now: opts.Now, all: map[types.UID]*attempt{}}}
	c.namespace = opts.Namespace
	c.book = store.NewSnapshots(opts.Namespace, func(name string) { c.enqueue(name) }, c.enqueueAll)
	return c
}

func (c *Controller) enqueueAll() { c.enqueue(c.book.Names()...) }

// Snapshot returns a snapshot; nil if there is none of that name.
func (c *Controller) Snapshot(name string) *v1.VirtualDiskSnapshot { return c.book.Snapshot(name) }

// DiskChanged makes the snapshots of a disk be looked at.
func (c *Controller) DiskChanged(disk string) { c.enqueue(c.book.Of(disk)...) }

// concurrency is how many snapshots are looked at at the same time: attempts don't count.
const concurrency = 4

// Times after which it is looked again.
const (
	firstRetry    = 100 * time.Millisecond
	lastRetry     = 2 * time.Minute
	conflictRetry = 100 * time.Millisecond // for what the watch is about to bring
	unlistedRetry = 5 * time.Second        // without knowing the snapshots
	busyRetry     = 2 * time.Second        // where another one freezes the guest, or the VM starts
	refusedRetry  = time.Minute            // what is not possible as the cluster is
	goneRetry     = 5 * time.Second        // a VolumeSnapshot that the watch doesn't have, and the API server has
)

// Add adds the controller to a manager, with a client that watches.
func (c *Controller) Add(mgr manager.Manager, watching client.WithWatch) error {
	err := c.addTo(mgr, "snapshot", c, c.enqueueAll)
	if err != nil {
		return err
	}
	return mgr.Add(store.Always(func(ctx context.Context) error {
		c.book.Follow(ctx, watching)
		return nil
	}))
}
