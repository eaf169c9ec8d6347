package cluster

import (
	"slices"
	"strings"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/web/fleet"
)

// isOfCluster reports whether an image stores a ClusterVirtualImage. Pages show the ClusterVirtualImage instead.
func (f *Fleet) isOfCluster(i *v1.VirtualDisk) bool {
	of, may := disk.ClusterImageOf(i.Name)
	if !may {
		return false
	}
	c := f.opts.Volumes.Images.ClusterImage(of)
	return c != nil && disk.IsOfCluster(c, i)
}

// clusterImages returns the images of the cluster, sorted by name. An image that isn't used in the namespace yet has no
// state. It returns nil if the manager can't read them.
func (f *Fleet) clusterImages() (all []fleet.Volume) {
	list, unavailable := f.opts.Volumes.Images.ClusterImages()
	if unavailable != "" {
		return nil
	}
	for _, c := range list {
		v := f.volumeNamed(v1.KindClusterVirtualImage, c.Name)
		if v.Reason == disk.ReasonStoring {
			v.State, v.Reason, v.Message, v.Advice = "", "", "", ""
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b fleet.Volume) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// clusterSources returns the cluster images from which a disk can be created, named as in attachments. Size is the
// minimum size of such a disk. If an image isn't stored here yet, that is the size in its definition, which may be
// larger than needed.
func (f *Fleet) clusterSources() (all []fleet.Volume) {
	for _, v := range f.clusterImages() {
		d, err := f.deviceNamed(v1.KindClusterVirtualImage, v.Name)
		if err != nil || d == nil || d.DeletionTimestamp != nil || d.Status.Phase == v1.DiskFailed || disk.IsCD(d) {
			continue
		}
		if of := d.Status.Import; of != nil && of.VirtualSize > 0 {
			v.Size = of.VirtualSize
		}
		v.Name = fleet.ClusterImagePrefix + v.Name
		all = append(all, v)
	}
	return all
}
