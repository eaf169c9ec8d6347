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

// asked are the ClusterVirtualImages to which something refers, and that aren't stored in the namespace. They are
// remembered here only: a manager that begins looks at all that refers to some.
type asked struct {
	mu    sync.Mutex
	names map[string]bool
}

// addName notes one, and reports whether it is new.
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

// diskNamed returns the disk, or the image (disk.AsDisk), that is meant by a kind and a name; nil if there is none. A
// ClusterVirtualImage that isn't stored in the namespace is then stored there, by the controller of images.
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

// ofCluster returns the image of a ClusterVirtualImage, as disk.OfCluster has it.
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

// storedAs returns what a refusal to store a ClusterVirtualImage is about.
func storedAs(of *v1.ClusterVirtualImage) *v1.VirtualDisk {
	return &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{
		Name: disk.ClusterImageName(of.Name), UID: of.UID, Generation: of.Generation,
	}}
}

// clusterChanged looks at what there is of a ClusterVirtualImage that has changed, and at what refers to it.
func (c *Controller) clusterChanged(name string) {
	c.requests.Enqueue(disk.ClusterImageName(name))
	c.wakeVMs(v1.KindClusterVirtualImage, name)
}

// clustersListed looks at what refers to ClusterVirtualImages, which are known now.
func (c *Controller) clustersListed() {
	for _, name := range c.asked.allNames() {
		c.clusterChanged(name)
	}
}

// wakeVMs looks at the VMs that name a disk or an image, and calls what else is to know of it.
func (c *Controller) wakeVMs(kind v1.BlockDeviceKind, name string) {
	for _, do := range c.also {
		do(name)
	}
	c.opts.VMs.EnqueueAny(c.opts.VMs.UsersOf(objects.DeviceRef{Kind: kind, Name: name})...)
}

// followImage makes the image of a ClusterVirtualImage be as that says: it is stored if something refers to it, and
// grows with it. d is what there is of the image's name; nil for nothing.
func (c *Controller) followImage(ctx context.Context, name string, d *v1.VirtualDisk) (again time.Duration, err error) {
	of, may := disk.ClusterImageOf(name)
	if !may {
		return 0, nil
	}
	is := c.book.ClusterImage(of)
	switch {
	case is == nil:
		if _, unavailable := c.book.ClusterImages(); unavailable == "" {
			c.asked.removeName(of) // what refers to it asks again when there is one
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

// storeImage creates the image of a ClusterVirtualImage, unless the API server has refused that a moment ago.
func (c *Controller) storeImage(ctx context.Context, of *v1.ClusterVirtualImage) (again time.Duration, err error) {
	if refused, wait := c.recentRefusal(storedAs(of)); refused != nil {
		return wait, nil
	}
	image := disk.StoredOf(of, c.opts.Namespace)
	err = c.opts.Client.Create(ctx, image, owner)
	if why := refusalOf(err); why != nil {
		c.rememberRefusal(storedAs(of), *why)
		c.wakeVMs(v1.KindClusterVirtualImage, of.Name) // they say so
		return refusedRetry, nil
	}
	if err != nil {
		return 0, fmt.Errorf("store the ClusterVirtualImage %s: %w", of.Name, err)
	}
	return 0, c.book.Learn(image)
}

// growImage makes an image as large as its ClusterVirtualImage is to be.
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
