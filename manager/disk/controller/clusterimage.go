package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
)

// asked is the set of ClusterVirtualImages in use that the namespace doesn't store yet. It is kept in memory only: when
// a manager starts, it looks at all their users.
type asked struct {
	mu    sync.Mutex
	names map[string]bool
}

// addName adds a name and reports whether it is new.
func (a *asked) addName(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := a.names[name]
	a.names[name] = true
	return !had
}

func (a *asked) hasName(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names[name]
}

func (a *asked) removeName(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.names, name)
}

func (a *asked) allNames() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.names))
}

// diskNamed returns a disk or image (see disk.AsDisk) by kind and name; nil if it doesn't exist. If a
// ClusterVirtualImage isn't stored in the namespace, the controller of images then stores it.
func (c *Controller) diskNamed(kind v1.BlockDeviceKind, name string) (*v1.VirtualDisk, error) {
	switch kind {
	case v1.KindVirtualImage:
		return c.images.book.Disk(name)
	case v1.KindClusterVirtualImage:
		return c.images.ofCluster(name)
	case v1.KindVirtualDisk:
	}
	return c.disks.book.Disk(name)
}

// ofCluster returns the image of a ClusterVirtualImage, as disk.OfCluster does.
func (c *Controller) ofCluster(name string) (*v1.VirtualDisk, error) {
	i, err := c.book.OfCluster(name)
	if err != nil || disk.Stored(i) {
		return i, err
	}
	if c.asked.addName(name) {
		c.requests.Enqueue(disk.ClusterImageName(name))
	}
	if of := c.book.ClusterImage(name); i != nil && i.Status.Reason == disk.ReasonStoring && of != nil {
		if refused, _ := c.recentRefusal(storedAs(of)); refused != nil {
			i.Status.Message = "it can't be stored in this namespace: " + refused.Message
		}
	}
	return i, nil
}

// storedAs returns the key under which a refusal to store a ClusterVirtualImage is remembered.
func storedAs(of *v1.ClusterVirtualImage) *v1.VirtualDisk {
	return &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{
		Name: disk.ClusterImageName(of.Name), UID: of.UID, Generation: of.Generation,
	}}
}

// clusterChanged looks at a changed ClusterVirtualImage's stored image, and at its users.
func (c *Controller) clusterChanged(name string) {
	c.requests.Enqueue(disk.ClusterImageName(name))
	c.wakeVMs(v1.KindClusterVirtualImage, name)
}

// clustersListed looks at the users of all requested ClusterVirtualImages, once these have been listed.
func (c *Controller) clustersListed() {
	for _, name := range c.asked.allNames() {
		c.clusterChanged(name)
	}
}

// wakeVMs reconciles the VMs that name a disk or image, and calls Options.Changed.
func (c *Controller) wakeVMs(kind v1.BlockDeviceKind, name string) {
	if c.opts.Changed != nil {
		c.opts.Changed(name)
	}
	c.opts.VMs.EnqueueAny(c.opts.VMs.UsersOf(objects.DeviceRef{Kind: kind, Name: name})...)
}

// followImage keeps the stored image of a ClusterVirtualImage up to date: it stores the image if it is used, and grows
// it. d is the existing image with that name; nil if there is none.
func (c *Controller) followImage(ctx context.Context, name string, d *v1.VirtualDisk) (again time.Duration, err error) {
	of, may := disk.ClusterImageOf(name)
	if !may {
		return 0, nil
	}
	is := c.book.ClusterImage(of)
	switch {
	case is == nil:
		if _, unavailable := c.book.ClusterImages(); unavailable == "" {
			c.asked.removeName(of) // users ask again when it exists
		}
		return 0, nil
	case d == nil && is.DeletionTimestamp == nil && c.asked.hasName(of):
		return c.storeImage(ctx, is)
	case d != nil && d.DeletionTimestamp == nil && disk.IsOfCluster(is, d):
		c.asked.removeName(of)
		return 0, c.growImage(ctx, is, d)
	}
	return 0, nil
}

// storeImage creates the image of a ClusterVirtualImage, unless the API server has just refused it.
func (c *Controller) storeImage(ctx context.Context, of *v1.ClusterVirtualImage) (again time.Duration, err error) {
	if refused, wait := c.recentRefusal(storedAs(of)); refused != nil {
		return wait, nil
	}
	image := disk.StoredOf(of, c.opts.Namespace)
	err = c.opts.Client.Create(ctx, image, owner)
	if why := refusalOf(err); why != nil {
		c.rememberRefusal(storedAs(of), *why)
		c.wakeVMs(v1.KindClusterVirtualImage, of.Name) // their status shows it
		return refusedRetry, nil
	}
	if err != nil {
		return 0, fmt.Errorf("store the ClusterVirtualImage %s: %w", of.Name, err)
	}
	return 0, c.book.Learn(image)
}

// growImage grows a stored image to the size of its ClusterVirtualImage.
func (c *Controller) growImage(ctx context.Context, of *v1.ClusterVirtualImage, d *v1.VirtualDisk) error {
	size := of.Spec.PersistentVolumeClaim.Size
	if size.Cmp(disk.Size(d)) <= 0 {
		return nil
	}
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": d.UID, "resourceVersion": d.ResourceVersion},
		"spec":     map[string]any{"persistentVolumeClaim": map[string]any{"size": size.String()}},
	})
	if err != nil {
		return err
	}
	next := &v1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: c.opts.Namespace}}
	if err := c.opts.Client.Patch(ctx, next, client.RawPatch(types.MergePatchType, text), owner); err != nil {
		return fmt.Errorf("let the VirtualImage %s grow to %s: %w", d.Name, size.String(), err)
	}
	return c.book.Learn(next)
}
