package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v1 "vmop/api/v1"
	"vmop/manager/store"
	"vmop/manager/store/publish"
	"vmop/manager/vm/objects"
	"vmop/runner/status"
)

// VMs provides the VMs of the namespace.
type VMs interface {
	// VM returns a VM, or nil if it does not exist. Pod returns the pod that its stateful set has created, or
	// nil.
	VM(name string) (*v1.VirtualMachine, error)
	Pod(vm string) (*corev1.Pod, error)
	// Metadata returns the metadata of a VM's object, or nil if it does not exist.
	Metadata(k objects.Kind, name string) (*objects.Metadata, error)
}

// Disks provides the disks of the namespace.
type Disks interface {
	// Disk returns a disk, or nil if it does not exist.
	Disk(name string) (*v1.VirtualDisk, error)
}

// Guest can freeze its file systems. *control.Client implements Guest.
type Guest interface {
	Freeze(ctx context.Context, limit time.Duration) (status.FreezeAnswer, error)
	Thaw(ctx context.Context) (status.FreezeAnswer, error)
}

// Options configure a Controller.
type Options struct {
	// Namespace of the snapshots.
	Namespace string
	VMs       VMs
	Disks     Disks
	// Client writes; Live reads from the API server.
	Client publish.Client
	Live   client.Reader
	// Guest returns the guest that is running in a VM's pod.
	Guest func(vm *v1.VirtualMachine, pod *corev1.Pod) (Guest, error)
	// Settings returns the current settings of the manager.
	Settings func() objects.Settings
	// Instance is the name of this manager's process in events.
	Instance string
	// Now is the clock.
	Now func() time.Time
}

// Controller creates snapshots of disks. It is safe for concurrent use.
type Controller struct {
	maker

	requests store.Requests
	book     *store.Snapshots
	attempts attempts
}

// maker creates VolumeSnapshots.
type maker struct{ opts Options }

// New returns a controller with an empty store.
func New(opts Options) *Controller {
	c := &Controller{maker: maker{opts}, attempts: attempts{now: opts.Now, all: map[types.UID]*attempt{}}}
	c.book = store.NewSnapshots(opts.Namespace, func(name string) { c.requests.Enqueue(name) }, c.enqueueAll)
	return c
}

func (c *Controller) enqueueAll() { c.requests.Enqueue(c.book.Names()...) }

// Snapshot returns a snapshot, or nil if it does not exist.
func (c *Controller) Snapshot(name string) *v1.VirtualDiskSnapshot { return c.book.Snapshot(name) }

// DiskChanged requests reconciliations of a disk's snapshots.
func (c *Controller) DiskChanged(disk string) { c.requests.Enqueue(c.book.Of(disk)...) }

// concurrency is the maximum number of concurrent reconciliations. Attempts don't count.
const concurrency = 4

// Delays before repeating a check.
const (
	conflictRetry = 100 * time.Millisecond // for the watch to deliver a change
	unlistedRetry = 5 * time.Second        // snapshots are unknown
	busyRetry     = 2 * time.Second        // while another snapshot freezes the guest, or the VM starts
	refusedRetry  = time.Minute            // while the cluster's configuration prevents a snapshot
	goneRetry     = 5 * time.Second        // while the API server has a VolumeSnapshot that the watch lacks
)

// Add adds the controller to a manager. watching is a client that can watch.
func (c *Controller) Add(mgr manager.Manager, watching client.WithWatch) error {
	return c.requests.Add(mgr, store.Controlled{
		Name: "snapshot", Namespace: c.opts.Namespace, Reconciler: c, Concurrency: concurrency,
		EnqueueAll: c.enqueueAll,
		Follow:     func(ctx context.Context) { c.book.Follow(ctx, watching) },
	})
}
