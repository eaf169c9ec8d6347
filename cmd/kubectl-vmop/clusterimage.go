package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "vmop/api/v1"
	"vmop/manager/act"
	"vmop/manager/disk"
)

// clusterPrefix is before the name of a ClusterVirtualImage, to tell it from a VirtualImage.
const clusterPrefix = "cvi/"

// imageRef returns the image that a user calls NAME or vi/NAME, or cvi/NAME, if it is the cluster's.
func imageRef(text string) v1.AttachedDeviceRef {
	cluster := noun{word: "image", short: "cvi", kind: "clustervirtualimage." + v1.GroupName}
	if name := cluster.name(text); name != text {
		return v1.AttachedDeviceRef{Kind: v1.AttachedClusterImage, Name: name}
	}
	return v1.AttachedDeviceRef{Kind: v1.AttachedImage, Name: images().name(text)}
}

// diskRef returns the disk that a user calls NAME or vd/NAME.
func diskRef(text string) v1.AttachedDeviceRef {
	return v1.AttachedDeviceRef{Kind: v1.AttachedDisk, Name: disks().name(text)}
}

// anyImages are VirtualImages, and ClusterVirtualImages as cvi/NAME, of which shells complete the names.
func anyImages() noun {
	n := images()
	n.list = func(ctx context.Context, c *cluster, o metav1.ListOptions) (runtime.Object, error) {
		list, err := c.images.List(ctx, o)
		if err != nil {
			return nil, err
		}
		all, err := c.ofCluster(ctx, o)
		if err != nil {
			return nil, err
		}
		list.Items = slices.DeleteFunc(list.Items, func(i v1.VirtualImage) bool { return storedOf(&i, all) != nil })
		for i := range all {
			called := metav1.ObjectMeta{Name: clusterPrefix + all[i].Name}
			list.Items = append(list.Items, v1.VirtualImage{ObjectMeta: called})
		}
		return list, nil
	}
	return n
}

// ofCluster returns the ClusterVirtualImages; none where the user may not see them, or their kind isn't there.
func (c *cluster) ofCluster(ctx context.Context, o metav1.ListOptions) ([]v1.ClusterVirtualImage, error) {
	list, err := c.clusterImages.List(ctx, o)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// storedOf returns the ClusterVirtualImage of which an image is what the namespace has; nil if it is none of them.
func storedOf(i *v1.VirtualImage, among []v1.ClusterVirtualImage) *v1.ClusterVirtualImage {
	at := slices.IndexFunc(among, func(c v1.ClusterVirtualImage) bool {
		return i.Name == disk.ClusterImageName(c.Name) && disk.IsOfCluster(&c, disk.AsDisk(i))
	})
	if at < 0 {
		return nil
	}
	return &among[at]
}

// imageRows returns the rows of images: of those of the namespace, then of the cluster's, with what is stored of them
// in the namespace.
func imageRows(list []v1.VirtualImage, all []v1.ClusterVirtualImage) [][]string {
	rows := [][]string{{"NAME", "PHASE", "CDROM", "PROGRESS", "SIZE", "SOURCE", "AGE"}}
	stored := map[string]*v1.VirtualImage{}
	age := func(of metav1.ObjectMeta) string {
		return duration.HumanDuration(time.Since(of.CreationTimestamp.Time))
	}
	row := func(name string, i *v1.VirtualImage, source *v1.VirtualDiskSource, age string) {
		cd := "-"
		if i.Status.CDROM != nil {
			cd = "false"
			if *i.Status.CDROM {
				cd = "true"
			}
		}
		s := i.Status
		rows = append(rows, []string{
			name, cmp.Or(string(s.Phase), "-"), cd, cmp.Or(s.Progress, "-"), cmp.Or(s.Size.Unpacked, "-"),
			act.SourceOf(source), age,
		})
	}
	for n := range list {
		i := &list[n]
		if of := storedOf(i, all); of != nil {
			stored[of.Name] = i
			continue
		}
		row(i.Name, i, &i.Spec.DataSource, age(i.ObjectMeta))
	}
	for n := range all {
		of := &all[n]
		i := stored[of.Name]
		if i == nil {
			i = &v1.VirtualImage{}
		}
		row(clusterPrefix+of.Name, i, &of.Spec.DataSource, age(of.ObjectMeta))
	}
	return rows
}
