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
	"vmop/manager/disk"
	"vmop/manager/operation/act"
)

// clusterPrefix precedes the name of a ClusterVirtualImage, to distinguish it from a VirtualImage.
const clusterPrefix = "cvi/"

// imageRef returns the reference for NAME or vi/NAME, or for cvi/NAME, an image of the cluster.
func imageRef(text string) v1.AttachedDeviceRef {
	cluster := noun{word: "image", short: "cvi", kind: "clustervirtualimage." + v1.GroupName}
	if name := cluster.bareName(text); name != text {
		return v1.AttachedDeviceRef{Kind: v1.AttachedClusterImage, Name: name}
	}
	return v1.AttachedDeviceRef{Kind: v1.AttachedImage, Name: imageNoun().bareName(text)}
}

// diskRef returns the reference for NAME or vd/NAME.
func diskRef(text string) v1.AttachedDeviceRef {
	return v1.AttachedDeviceRef{Kind: v1.AttachedDisk, Name: diskNoun().bareName(text)}
}

// anyImages returns a noun for VirtualImages and for ClusterVirtualImages as cvi/NAME. Shells use it to complete
// names.
func anyImages() noun {
	n := imageNoun()
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

// ofCluster returns the ClusterVirtualImages. The result is empty if the user may not see them or their kind is
// not installed.
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

// storedOf returns the ClusterVirtualImage that an image of the namespace is a copy of, or nil.
func storedOf(i *v1.VirtualImage, among []v1.ClusterVirtualImage) *v1.ClusterVirtualImage {
	at := slices.IndexFunc(among, func(c v1.ClusterVirtualImage) bool {
		return i.Name == disk.ClusterImageName(c.Name) && disk.IsOfCluster(&c, disk.AsDisk(i))
	})
	if at < 0 {
		return nil
	}
	return &among[at]
}

// imageRows returns the rows of images: first the images of the namespace, then the images of the cluster with
// the state of their copies in the namespace.
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
