package controller

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
	"vmop/diskimage/nbd"
	"vmop/manager/store"
	"vmop/manager/store/publish"
	"vmop/manager/vm/objects"
)

// VMs provides the VMs of the namespace.
type VMs interface {
	// Pod returns the pod that a VM's stateful set has created, or nil.
	Pod(vm string) (*corev1.Pod, error)
	// EnqueueAny requests reconciliations of VMs, even if they do not exist.
	EnqueueAny(vms ...string)
}

// Disks provides the disks and images of the namespace.
type Disks interface {
	// Disk returns a disk, or nil if it does not exist.
	Disk(name string) (*v1.VirtualDisk, error)
	// Image returns an image of a kind in the form of disk.AsDisk or disk.OfCluster, or nil if it does not exist.
	Image(kind v1.BlockDeviceKind, name string) (*v1.VirtualDisk, error)
	// Lock locks a disk for a VM, and returns the changed disk. It returns a conflict if the disk has changed in
	// the meantime.
	Lock(ctx context.Context, vm string, d *v1.VirtualDisk) (*v1.VirtualDisk, error)
	// Mounted asks the API server whether a pod of a VM mounts the claim of a disk, or may do so. settled reports
	// that this isn't changing right now.
	Mounted(ctx context.Context, vm, disk string) (mounted, settled bool, err error)
}

// Options configure a Controller.
type Options struct {
	// Namespace of the disks.
	Namespace string
	// Settings returns the current settings of the manager.
	Settings func() objects.Settings
	VMs      VMs
	Disks    Disks
	// Client writes. Live reads from the API server, and is only used for data that must be up to date.
	Client publish.Client
	Live   client.Reader
	// Instance is the name of this manager's process in events.
	Instance string
	// Now is the clock.
	Now func() time.Time
}

// Controller attaches disks. Its methods may be called concurrently for different VMs.
type Controller struct {
	opts Options
	book *store.Attachments

	mu       sync.Mutex
	memories map[string]*memory // by VM
}

// memory is the remembered state of a VM. Only one goroutine uses it at a time.
type memory struct {
	uid       types.UID // of the VM
	authority *nbd.Authority
	tls       string // version of the Secret with the VM's certificates, if this process has created it
	// drives and version are the drives last written by this process, and the version of their ConfigMap.
	drives  objects.Drives
	version uint64
}

// New returns a controller with an empty store.
func New(opts Options) *Controller {
	c := &Controller{opts: opts, memories: map[string]*memory{}}
	c.book = store.NewAttachments(opts.Namespace, func(vm string) { opts.VMs.EnqueueAny(vm) })
	return c
}

// Book returns the controller's store of attachments.
func (c *Controller) Book() *store.Attachments { return c.book }

// Add adds the controller to a manager. watching is a client that can watch.
func (c *Controller) Add(mgr manager.Manager, watching client.WithWatch) error {
	return mgr.Add(store.Always(func(ctx context.Context) error {
		c.book.Follow(ctx, watching)
		return nil
	}))
}

// VMChanged requests a reconciliation of a VM that has attachments or exports, even if the VM has been deleted.
func (c *Controller) VMChanged(vm string) {
	if all, err := c.book.Of(vm); err != nil || len(all) > 0 || len(c.book.Exports(vm)) > 0 {
		c.opts.VMs.EnqueueAny(vm)
	}
}

// EnqueueAll requests reconciliations of all VMs with attachments, for a manager that has become the leader.
func (c *Controller) EnqueueAll() { c.opts.VMs.EnqueueAny(c.book.VMs()...) }

// DiskChanged requests reconciliations of the VMs with attachments of a disk or image.
func (c *Controller) DiskChanged(disk string) { c.opts.VMs.EnqueueAny(c.book.UsersOf(disk)...) }

// Delays before repeating checks that no event triggers.
const (
	unlistedRetry = 5 * time.Second        // attachments are unknown
	conflictRetry = 100 * time.Millisecond // for the watch to deliver a change
	setRetry      = time.Second            // for the controller of stateful sets, which may not be running
	refusedRetry  = time.Minute            // after a refusal by the API server: a quota may change
	nameRetry     = 5 * time.Second        // for a foreign object with the same name to disappear
	patience      = 10 * time.Second       // how long VMs wait for the attachments to be listed
)

// Await waits for a limited time until the attachments are known. The manager also works without them.
func (c *Controller) Await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c.book.Await(ctx)
}

// Exported reports whether a disk is exported to a running VM. In that case, no pod may mount its claim. If sure
// is true, it also asks the API server, because the watch may be late.
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

// memoryOf returns the remembered state of a VM.
func (c *Controller) memoryOf(vm string, uid types.UID) *memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memories[vm]; m != nil && m.uid == uid {
		return m
	}
	m := &memory{uid: uid}
	c.memories[vm] = m
	return m
}

func (c *Controller) forgetVM(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memories, vm)
}
