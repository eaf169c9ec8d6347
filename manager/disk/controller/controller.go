package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/store"
	"vmop/manager/store/publish"
	"vmop/manager/vm/objects"
)

// VMs gives access to the VMs of the namespace.
type VMs interface {
	// VM returns a VM; nil if it doesn't exist. Pod returns the pod that the VM's stateful set has created.
	VM(name string) (*v1.VirtualMachine, error)
	Pod(vm string) (*corev1.Pod, error)
	// Metadata returns the metadata of an object; nil if it doesn't exist.
	Metadata(k objects.Kind, name string) (*objects.Metadata, error)
	// UsersOf returns the VMs that name a disk or image.
	UsersOf(disk objects.DeviceRef) []string
	// EnqueueAny reconciles VMs, even those that no longer exist.
	EnqueueAny(vms ...string)
}

// Snapshots gives access to the snapshots of the namespace.
type Snapshots interface {
	// Source returns the source snapshot of a disk, as a snapshot of one disk; nil if it doesn't exist.
	Source(of v1.DiskSourceRef) *v1.VirtualDiskSnapshot
}

// Exports gives access to the exports of the namespace's disks.
type Exports interface {
	// Exported reports whether a disk is exported to a running VM. sure makes it ask the API server.
	Exported(ctx context.Context, disk string, sure bool) (bool, error)
}

// Options configure a Controller.
type Options struct {
	// Namespace contains the disks.
	Namespace string
	// Settings returns the settings from the manager's configuration.
	Settings func() objects.Settings
	// VMs are the VMs of the namespace.
	VMs VMs
	// Snapshots has the source snapshots of disks, and Exports the exports of disks.
	Snapshots Snapshots
	Exports   Exports
	// Changed is called for each changed disk and image; nil if no controller depends on them.
	Changed func(disk string)
	// Client writes. Live reads from the API server what must be current.
	Client publish.Client
	Live   client.Reader
	// Instance is the name of this manager process in events.
	Instance string
	// Now is the clock.
	Now func() time.Time
}

// A Controller creates disks or images. Its methods are safe for concurrent use.
type Controller struct {
	opts Options
	kind v1.BlockDeviceKind
	book *store.Disks

	disks, images *Controller // one of them is this one

	requests store.Requests

	mu      sync.Mutex
	refused map[string]refusal // by disk name
	seen    map[string]sight   // by disk name, for copies of claims
	wanted  wanted
	asked   asked // for images
	fetched fetched
}

// A refusal is a write that the API server refused. It is tried again after a while.
type refusal struct {
	disk.Refusal

	uid        types.UID // of the disk
	generation int64     // of the disk
	until      time.Time
}

// New returns a controller for disks. It includes a controller for images: see Images.
func New(opts Options) *Controller {
	c, images := newController(opts, v1.KindVirtualDisk), newController(opts, v1.KindVirtualImage)
	c.book = store.NewDisks(opts.Namespace, c.noteChange, func() {
		c.EnqueueAll()
		images.EnqueueAll()
	})
	images.book = store.NewImages(c.book, images.noteChange, images.clusterChanged, images.clustersListed)
	c.disks, c.images, images.disks, images.images = c, images, c, images
	return c
}

func newController(opts Options, kind v1.BlockDeviceKind) *Controller {
	return &Controller{
		opts: opts, kind: kind, refused: map[string]refusal{}, seen: map[string]sight{},
		wanted:  wanted{by: map[string]map[string]disk.Place{}},
		asked:   asked{names: map[string]bool{}},
		fetched: fetched{of: map[string]*fetch{}, slots: make(chan struct{}, mostFetches), client: progressClient()},
	}
}

// Images returns the controller for the images of the namespace.
func (c *Controller) Images() *Controller { return c.images }

// Book returns this controller's store of disks or images.
func (c *Controller) Book() *store.Disks { return c.book }

// Disk returns a disk; nil if it doesn't exist. It returns an error until the disks have been listed, because a disk
// that isn't known yet is not missing.
func (c *Controller) Disk(name string) (*v1.VirtualDisk, error) {
	if err := c.book.Listed(); err != nil {
		return nil, fmt.Errorf("look for the VirtualDisk %s: %w", name, err)
	}
	return c.book.Disk(name)
}

// Image returns an image of the given kind, as a disk; nil if it doesn't exist. It returns an error until the images
// have been listed. Asking for a ClusterVirtualImage causes it to be stored in the namespace.
func (c *Controller) Image(kind v1.BlockDeviceKind, name string) (*v1.VirtualDisk, error) {
	if err := c.images.book.Listed(); err != nil {
		return nil, fmt.Errorf("look for the %s %s: %w", kind, name, err)
	}
	return c.diskNamed(kind, name)
}

// noteChange looks at a changed disk, and at the VMs that name it.
func (c *Controller) noteChange(name string) {
	c.requests.Enqueue(name)
	c.wakeVMs(c.kind, name)
	if of, may := disk.ClusterImageOf(name); may && c == c.images {
		c.wakeVMs(v1.KindClusterVirtualImage, of)
	}
}

// EnqueueAll looks at all disks, after a change of the storage classes.
func (c *Controller) EnqueueAll() {
	c.mu.Lock()
	clear(c.refused)
	c.mu.Unlock()
	c.requests.Enqueue(c.book.Names()...)
	for _, name := range c.asked.allNames() {
		c.requests.Enqueue(disk.ClusterImageName(name))
	}
}

// VMChanged reconciles a VM that uses disks, even if it no longer exists.
func (c *Controller) VMChanged(vm string) {
	if len(c.book.Of(vm)) > 0 {
		c.opts.VMs.EnqueueAny(vm)
	}
}

// concurrency is how many disks are reconciled in parallel.
const concurrency = 8

// Add adds this controller and the controller for images to a manager. The client must support watches.
func (c *Controller) Add(mgr manager.Manager, watching client.WithWatch) error {
	return errors.Join(c.addToManager(mgr, watching, "disk"), c.images.addToManager(mgr, watching, "image"))
}

func (c *Controller) addToManager(mgr manager.Manager, watching client.WithWatch, name string) error {
	return c.requests.Add(mgr, store.Controlled{
		Name: name, Namespace: c.opts.Namespace, Reconciler: c, Concurrency: concurrency, EnqueueAll: c.EnqueueAll,
		Follow: func(ctx context.Context) { c.book.Follow(ctx, watching) },
	})
}

// Delays before looking again, where no watch reports the change.
const (
	conflictRetry = 100 * time.Millisecond // the watch is about to deliver the change
	unlistedRetry = 5 * time.Second        // the disks are not listed
	sourceRetry   = 2 * time.Second        // a source that isn't ready, or is being copied
	refusedRetry  = time.Minute            // the API server refused; a quota may change
	podRetry      = time.Second            // a pod gone for the watch, but not yet for the stateful set
	goneRetry     = 5 * time.Second        // a claim missing from the watch, but known to the API server
)

// patience is how long a starting manager waits for the list of disks.
const patience = 10 * time.Second

// Await waits until the disks are listed, for a limited time. Without them the manager works, and reports the problem.
func (c *Controller) Await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.book.Await(ctx)
	c.images.book.Await(ctx)
}

// whyUnavailable returns why the disks are not known; "" if they are.
func (c *Controller) whyUnavailable() string {
	err, what := c.book.Listed(), "disks"
	if c.kind == v1.KindVirtualImage {
		what = "images"
	}
	switch {
	case err == nil:
		return ""
	case apierrors.IsForbidden(err):
		return "the manager may not " + err.Error() + ": the administrator applies deploy/manager/account.yaml"
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return "the API server doesn't know " + what + " (" + err.Error() + "): the administrator applies deploy/crds"
	}
	return what + " are not known: " + err.Error()
}
