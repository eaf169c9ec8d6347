package attach

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/manager/store"
	"vmop/nbdexport"
)

// VMs are what is known of the VMs of the namespace.
type VMs interface {
	// Pod returns the pod that the stateful set of a VM has made; nil if there is none.
	Pod(vm string) (*corev1.Pod, error)
	// EnqueueAny makes VMs be reconciled, also those that are gone.
	EnqueueAny(vms ...string)
}

// Disks are those of the namespace.
type Disks interface {
	// Disk returns a disk; nil if there is none of that name.
	Disk(name string) (*v1.VirtualDisk, error)
	// Image returns an image of a kind, as disk.AsDisk and disk.OfCluster have it; nil if there is none of that name.
	Image(kind v1.BlockDeviceKind, name string) (*v1.VirtualDisk, error)
	// Lock gives a disk to a VM, and returns it as it is then. It is a conflict if it has changed.
	Lock(ctx context.Context, vm string, d *v1.VirtualDisk) (*v1.VirtualDisk, error)
	// Mounted reports whether a pod of a VM has the claim of a disk, or may get it, and whether that
	// isn't changing just now, by the API server.
	Mounted(ctx context.Context, vm, disk string) (mounted, settled bool, err error)
}

// Client writes objects, and their status.
type Client interface {
	client.Writer
	client.StatusClient
}

// Options are what a Controller needs.
type Options struct {
	// Namespace whose disks are attached.
	Namespace string
	// Settings returns what the manager's configuration says.
	Settings func() objects.Settings
	VMs      VMs
	Disks    Disks
	// Client writes; Live reads from the API server, only what must not be out of date.
	Client Client
	Live   client.Reader
	// Instance is the name of this manager's process in events.
	Instance string
	// Now is the clock.
	Now func() time.Time
}

// A Controller attaches disks. Its methods may be called by several goroutines, for different VMs.
type Controller struct {
	opts Options
	book *store.Attachments

	mu       sync.Mutex
	memories map[string]*memory // by the VM
}

// memory is what is remembered of a VM, which one goroutine uses at a time.
type memory struct {
	uid       types.UID // of the VM
	authority *nbdexport.Authority
	tls       string // version of the Secret of the VM's certificates, if this process has created it
	// drives are those that this process has written last, with the ConfigMap's version.
	drives  objects.Drives
	version uint64
}

// New returns a controller that knows nothing yet.
func New(opts Options) *Controller {
	c := &Controller{opts: opts, memories: map[string]*memory{}}
	c.book = store.NewAttachments(opts.Namespace, func(vm string) { opts.VMs.EnqueueAny(vm) })
	return c
}

// Book returns the attachments as this controller knows them.
func (c *Controller) Book() *store.Attachments { return c.book }

// Add adds the controller to a manager, with a client that watches.
func (c *Controller) Add(mgr manager.Manager, watching client.WithWatch) error {
	return mgr.Add(store.Always(func(ctx context.Context) error {
		c.book.Follow(ctx, watching)
		return nil
	}))
}

// VMChanged makes a VM be looked at that has attachments, though it may be gone.
func (c *Controller) VMChanged(vm string) {
	if all, err := c.book.Of(vm); err != nil || len(all) > 0 || len(c.book.Exports(vm)) > 0 {
		c.opts.VMs.EnqueueAny(vm)
	}
}

// EnqueueAll makes all VMs be looked at that have attachments, as when a manager begins to lead.
func (c *Controller) EnqueueAll() { c.opts.VMs.EnqueueAny(c.book.VMs()...) }

// DiskChanged makes the VMs be looked at that have attachments of a disk or image of a name.
func (c *Controller) DiskChanged(disk string) { c.opts.VMs.EnqueueAny(c.book.UsersOf(disk)...) }

// Times after which it is looked again at what nothing tells of.
const (
	unlistedRetry = 5 * time.Second        // without knowing the attachments
	conflictRetry = 100 * time.Millisecond // for what the watch is about to bring
	setRetry      = time.Second            // for the controller of stateful sets, which may not be running
	refusedRetry  = time.Minute            // what the API server has refused: a quota may change
	nameRetry     = 5 * time.Second        // an object of the same name that is not ours
	patience      = 10 * time.Second       // how long VMs wait at most for the attachments to be known
)

// Await waits until the attachments are known, but not for ever: without them the manager works.
func (c *Controller) Await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.book.Await(ctx)
}

// Exported reports whether a disk is exported to a running VM: no pod may get its claim then. If it
// must be sure, the API server is asked, as the watch may be late.
func (c *Controller) Exported(ctx context.Context, disk string, sure bool) (bool, error) {
	name := objects.ExportName(disk)
	pod, err := c.book.Export(name)
	if err != nil || pod != nil || !sure {
		return pod != nil, err
	}
	err = c.opts.Live.Get(ctx, client.ObjectKey{Namespace: c.opts.Namespace, Name: name}, &corev1.Pod{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("look for the export of the VirtualDisk %s: %w", disk, err)
	}
	return err == nil, nil
}

// memory returns what is remembered of a VM.
func (c *Controller) memory(vm string, uid types.UID) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memories[vm]; m != nil && m.uid == uid {
		return m
	}
	m := &memory{uid: uid}
	c.memories[vm] = m
	return m
}

func (c *Controller) forget(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memories, vm)
}
