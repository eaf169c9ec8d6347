package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/operation/act"
	"vmop/manager/store"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
)

// Storage implements fleet.Fleet.
func (f *Fleet) Storage() fleet.Storage { return f }

// bookOf returns the store of images for VirtualImage, and the store of disks otherwise.
func (f *Fleet) bookOf(kind fleet.VolumeKind) *store.Disks {
	if kind == fleet.VirtualImage {
		return f.opts.Volumes.Images
	}
	return f.opts.Volumes.Disks
}

// Disks implements fleet.Storage.
func (f *Fleet) Disks(context.Context) (all []fleet.Volume, err error) {
	users := f.opts.Store.Devices()
	for _, kind := range []fleet.VolumeKind{fleet.VirtualDisk, fleet.VirtualImage} {
		book := f.bookOf(kind)
		if err := book.Listed(); err != nil {
			return nil, fleet.Refusal(fmt.Sprintf("%ss are not known: %v", kind, err))
		}
		for _, name := range slices.Sorted(slices.Values(book.Names())) {
			d, err := book.Disk(name)
			if err != nil {
				return nil, err
			}
			if d == nil || kind == fleet.VirtualImage && f.isOfCluster(d) {
				continue
			}
			v := volumeOf(v1.BlockDeviceKind(kind), d)
			v.UsedBy = slices.Clone(users[objects.DeviceRef{Kind: v1.BlockDeviceKind(kind), Name: name}.String()])
			if holder := disk.Holder(d); holder != "" {
				v.UsedBy = append(v.UsedBy, holder)
			}
			slices.Sort(v.UsedBy)
			v.UsedBy = slices.Compact(v.UsedBy)
			all = append(all, v)
		}
	}
	for _, v := range f.clusterImages() {
		v.UsedBy = slices.Sorted(slices.Values(users[string(v.Kind)+"/"+v.Name]))
		all = append(all, v)
	}
	return all, nil
}

// NewDisks implements fleet.Storage.
func (f *Fleet) NewDisks() fleet.NewDisks {
	return fleet.NewDisks{
		Kinds: []fleet.VolumeKind{fleet.VirtualDisk, fleet.VirtualImage},
		From:  []fleet.DiskFrom{fleet.FromBlank, fleet.FromURL, fleet.FromUpload, fleet.FromImage, fleet.FromDisk},
		Sized: true, Classes: true,
	}
}

// CreateDisk implements fleet.Storage.
func (f *Fleet) CreateDisk(ctx context.Context, user string, d fleet.NewDisk) error {
	source, err := sourceOf(d.Disk)
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{
		Name: d.Name, Namespace: f.opts.Namespace, Annotations: map[string]string{v1.AnnotationRequestedBy: user},
	}
	var class *string
	if d.Class != "" {
		class = &d.Class
	}
	size := *resource.NewQuantity(d.Size, resource.BinarySI)
	var object client.Object
	switch {
	case d.Kind == fleet.VirtualDisk:
		made := &v1.VirtualDisk{ObjectMeta: meta}
		made.Spec.DataSource = source
		made.Spec.PersistentVolumeClaim.Size, made.Spec.PersistentVolumeClaim.StorageClassName = size, class
		object = made
	case d.Kind != fleet.VirtualImage:
		return fleet.Refusal(fmt.Sprintf("%q is not a kind of disk: use %s or %s", d.Kind, fleet.VirtualDisk,
			fleet.VirtualImage))
	case source == nil:
		return fleet.Refusal("an image needs a source")
	default:
		made := &v1.VirtualImage{ObjectMeta: meta}
		made.Spec.DataSource = *source
		made.Spec.PersistentVolumeClaim.Size, made.Spec.PersistentVolumeClaim.StorageClassName = size, class
		object = made
	}
	err = f.opts.Client.Create(ctx, object, owner, client.FieldValidation("Strict"))
	if apierrors.IsAlreadyExists(err) {
		return fleet.Refusal(fmt.Sprintf("there is a %s %s already", d.Kind, d.Name))
	} else if err != nil {
		return asRefusal(err)
	}
	return f.bookOf(d.Kind).Learn(object) // an upload may begin before the watch delivers the disk
}

// sourceOf returns the source of a new disk; nil for a blank disk.
func sourceOf(d fleet.Disk) (*v1.VirtualDiskSource, error) {
	of := func(kind v1.BlockDeviceKind) *v1.VirtualDiskSource {
		return &v1.VirtualDiskSource{
			Type: v1.DiskSourceObjectRef, ObjectRef: &v1.DiskSourceRef{Kind: string(kind), Name: d.Of},
		}
	}
	switch d.From {
	case fleet.FromImage:
		if name, is := strings.CutPrefix(d.Of, fleet.ClusterImagePrefix); is {
			d.Of = name
			return of(v1.KindClusterVirtualImage), nil
		}
		return of(v1.KindVirtualImage), nil
	case fleet.FromDisk:
		return of(v1.KindVirtualDisk), nil
	case fleet.FromUpload:
		return &v1.VirtualDiskSource{Type: v1.DiskSourceUpload}, nil
	case fleet.FromURL:
		sum, err := act.Checksum(d.Checksum)
		if err != nil {
			return nil, fleet.Refusal(err.Error())
		}
		return &v1.VirtualDiskSource{Type: v1.DiskSourceHTTP, HTTP: &v1.HTTPSource{URL: d.Of, Checksum: sum}}, nil
	}
	return nil, nil
}

// diskToWrite returns a disk or image with its UID, for a write, and the VMs that use or name it.
func (f *Fleet) diskToWrite(
	ctx context.Context, kind fleet.VolumeKind, name string,
) (object client.Object, users []string, err error) {
	if kind == fleet.ClusterVirtualImage {
		return nil, nil, fleet.Refusal("an image of the cluster is its administrators': kubectl edit cvi " + name)
	}
	all, err := f.Disks(ctx)
	i := slices.IndexFunc(all, func(v fleet.Volume) bool { return v.Kind == kind && v.Name == name })
	if err != nil || i < 0 {
		return nil, nil, orNotFound(err)
	}
	d, err := f.bookOf(kind).Disk(name)
	if err != nil || d == nil {
		return nil, nil, orNotFound(err)
	}
	meta := metav1.ObjectMeta{Name: name, Namespace: f.opts.Namespace, UID: d.UID}
	if kind == fleet.VirtualImage {
		return &v1.VirtualImage{ObjectMeta: meta}, all[i].UsedBy, nil
	}
	return &v1.VirtualDisk{ObjectMeta: meta}, all[i].UsedBy, nil
}

// orNotFound returns err, or fleet.ErrNotFound if it is nil.
func orNotFound(err error) error {
	if err == nil {
		return fleet.ErrNotFound
	}
	return err
}

// GrowDisk implements fleet.Growth.
func (f *Fleet) GrowDisk(ctx context.Context, _ string, kind fleet.VolumeKind, name string, size int64) error {
	object, _, err := f.diskToWrite(ctx, kind, name)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": object.GetUID()},
		"spec":     map[string]any{"persistentVolumeClaim": map[string]any{"size": formatQuantity(size)}},
	})
	if err != nil {
		return fmt.Errorf("encode the size of %s: %w", name, err)
	}
	return asRefusal(f.opts.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), owner))
}

// DeleteDisk implements fleet.Storage. The API server refuses to delete a disk that a VM uses, or that is being copied.
func (f *Fleet) DeleteDisk(ctx context.Context, _ string, kind fleet.VolumeKind, name string) error {
	object, users, err := f.diskToWrite(ctx, kind, name)
	switch {
	case err != nil:
		return err
	case len(users) > 0:
		return fleet.Refusal(fmt.Sprintf("%s has it: delete the VM, or take the disk out of its definition",
			strings.Join(users, ", ")))
	}
	uid := object.GetUID()
	return asRefusal(f.opts.Client.Delete(ctx, object, client.Preconditions{UID: &uid}))
}
