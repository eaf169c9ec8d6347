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
	"vmop/manager/vm/objects"
)

// VMs are what is known of the VMs of the namespace.
type VMs interface {
	// VM returns a VM, nil if there is none; Pod the pod that its stateful set has made.
	VM(name string) (*v1.VirtualMachine, error)
	Pod(vm string) (*corev1.Pod, error)
	// Metadata returns the metadata of an object; nil if there is none.
	Metadata(k objects.Kind, name string) (*objects.Metadata, error)
	// UsersOf returns the VMs that name a disk or an image.
	UsersOf(disk objects.DeviceRef) []string
	// EnqueueAny makes VMs be reconciled, also those that are gone.
	EnqueueAny(vms ...string)
}

// Snapshots are those of the namespace.
type Snapshots interface {
	// Source returns the snapshot of which a disk is made, as that of one disk; nil if there is none of
	// that name.
	Source(of v1.DiskSourceRef) *v1.VirtualDiskSnapshot
}

// Exports are those of the disks of the namespace.
type Exports interface {
	// Exported reports whether a disk is exported to a running VM; if it must be sure, by the API
	// server.
	Exported(ctx context.Context, disk string, sure bool) (bool, error)
}

// Client writes objects, and their status.
type Client interface {
	client.Writer
	client.StatusClient
}

// Options are what a Controller needs.
type Options struct {
	// Namespace whose disks are made.
	Namespace string
	// Settings returns what the manager's configuration says.
	Settings func() objects.Settings
	// VMs are those of the namespace.
	VMs VMs
	// Client writes; Live reads from the API server, only what must not be out of date.
	Client Client
	Live   client.Reader
	// Instance is the name of this manager's process in events.
	Instance string
	// Now is the clock.
	Now func() time.Time
}

// A Controller makes disks, or images. Its methods may be called by several goroutines.
type Controller struct {
	opts Options
	kind v1.BlockDeviceKind
	book *store.Disks

	disks, images *Controller // one of them is this one

	snapshots Snapshots
	exports   Exports
	also      []func(disk string) // called for each that has changed

	requests store.Requests

	mu      sync.Mutex
	refused map[string]refusal // by the disk's name
	seen    map[string]sight   // likewise, of those that are copies of claims
	wanted  wanted
	asked   asked // of images
	fetched fetched
}

// A refusal is what the API server had against a write, which is not tried again for a while.
type refusal struct {
	disk.Refusal

	uid        types.UID // of the disk
	generation int64     // of the disk
	until      time.Time
}

// New returns a controller for disks that knows nothing yet, and has one for images: see Images.
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

// Images returns the controller that makes the images of the namespace.
func (c *Controller) Images() *Controller { return c.images }

// SnapshotsAre says where the snapshots are of which disks are made. It is to be called before Add.
func (c *Controller) SnapshotsAre(there Snapshots) { c.snapshots, c.images.snapshots = there, there }

// ExportsAre says where the exports are of disks. It is to be called before Add.
func (c *Controller) ExportsAre(there Exports) { c.exports = there }

// OnChange has a function called for each disk, and each image, that has changed. It is to be called before Add.
func (c *Controller) OnChange(do func(disk string)) {
	c.also = append(c.also, do)
	if c.images != nil && c.images != c {
		c.images.OnChange(do)
	}
}

// Book returns the disks, or images, as this controller knows them.
func (c *Controller) Book() *store.Disks { return c.book }

// Disk returns a disk; nil if there is none of that name.
// It is an error as long as the disks have not been listed: one that isn't known yet is not missing.
func (c *Controller) Disk(name string) (*v1.VirtualDisk, error) {
	if err := c.book.Listed(); err != nil {
		return nil, fmt.Errorf("look for the VirtualDisk %s: %w", name, err)
	}
	return c.book.Disk(name)
}

// Image returns an image of a kind, as a disk; nil if there is none of that name. It is an error as long as they have
// not been listed. A ClusterVirtualImage is stored in the namespace by that.
func (c *Controller) Image(kind v1.BlockDeviceKind, name string) (*v1.VirtualDisk, error) {
	if err := c.images.book.Listed(); err != nil {
		return nil, fmt.Errorf("look for the %s %s: %w", kind, name, err)
	}
	return c.diskNamed(kind, name)
}

// noteChange looks at a disk that has changed, and at the VMs that name it.
func (c *Controller) noteChange(name string) {
	c.requests.Enqueue(name)
	c.wakeVMs(c.kind, name)
	if of, may := disk.ClusterImageOf(name); may && c == c.images {
		c.wakeVMs(v1.KindClusterVirtualImage, of)
	}
}

// EnqueueAll makes all disks be looked at, after a change of the storage classes.
func (c *Controller) EnqueueAll() {
	c.mu.Lock()
	clear(c.refused)
	c.mu.Unlock()
	c.requests.Enqueue(c.book.Names()...)
	for _, name := range c.asked.allNames() {
		c.requests.Enqueue(disk.ClusterImageName(name))
	}
}

// VMChanged makes a VM be looked at that has disks, though it may be gone.
func (c *Controller) VMChanged(vm string) {
	if len(c.book.Of(vm)) > 0 {
		c.opts.VMs.EnqueueAny(vm)
	}
}

// concurrency is how many disks are looked at at the same time.
const concurrency = 8

// Add adds the controller and that of images to a manager, with a client that watches.
func (c *Controller) Add(mgr manager.Manager, watching client.WithWatch) error {
	return errors.Join(c.addToManager(mgr, watching, "disk"), c.images.addToManager(mgr, watching, "image"))
}

func (c *Controller) addToManager(mgr manager.Manager, watching client.WithWatch, name string) error {
	return c.requests.Add(mgr, store.Controlled{
		Name: name, Namespace: c.opts.Namespace, Reconciler: c, Concurrency: concurrency, EnqueueAll: c.EnqueueAll,
		Follow: func(ctx context.Context) { c.book.Follow(ctx, watching) },
	})
}

// Times after which it is looked again at what nothing tells of.
const (
	conflictRetry = 100 * time.Millisecond // for what the watch is about to bring
	unlistedRetry = 5 * time.Second        // without knowing the disks
	sourceRetry   = 2 * time.Second        // a snapshot or a disk that isn't ready, or that is copied
	refusedRetry  = time.Minute            // what the API server has refused: a quota may change
	podRetry      = time.Second            // a pod that is gone for the watch, and not quite for the stateful set
	goneRetry     = 5 * time.Second        // a claim that the watch doesn't have, and the API server has
)

// patience is how long VMs wait at most for the disks to be known, when a manager begins.
const patience = 10 * time.Second

// Await waits until the disks are known, but not for ever: without them the manager works, and
// says so.
func (c *Controller) Await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.book.Await(ctx)
	c.images.book.Await(ctx)
}

// whyUnavailable returns why disks are not known; "" if they are.
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
