package store

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// keepClusterImages adds the ClusterVirtualImages to a store of images. changed is called for each
// ClusterVirtualImage that is created, changed or deleted; the functions of OnChange are called next, with the
// name of its image in the namespace. listed is called when the ClusterVirtualImages become known.
func (s *Disks) keepClusterImages(changed func(name string), listed func()) {
	s.cluster = newFew(trimClusterImage, func(was, is *v1.ClusterVirtualImage) {
		of := is
		if of == nil {
			of = was
		}
		if of == nil {
			return
		}
		changed(of.Name)
		for _, show := range s.to {
			show(disk.ClusterImageName(of.Name))
		}
	}, listed)
}

func trimClusterImage(i *v1.ClusterVirtualImage) {
	i.TypeMeta, i.ManagedFields = metav1.TypeMeta{}, nil
	delete(i.Annotations, corev1.LastAppliedConfigAnnotation)
}

// ClusterImage returns a ClusterVirtualImage, or nil if it does not exist. Callers must not change it.
func (s *Disks) ClusterImage(name string) *v1.ClusterVirtualImage { return s.cluster.getObject(name) }

// ClusterImages returns all ClusterVirtualImages, and the reason if they are not known. Callers must not change
// them.
func (s *Disks) ClusterImages() (all []*v1.ClusterVirtualImage, unavailable string) {
	return s.cluster.listObjects(), s.cluster.whyUnknown()
}

// OfCluster returns the image for the name of a ClusterVirtualImage, as disk.OfCluster computes it; nil if it
// does not exist.
func (s *Disks) OfCluster(name string) (*v1.VirtualDisk, error) {
	if why := s.cluster.whyUnknown(); why != "" {
		return disk.Unavailable(name, "ClusterVirtualImages are not known: "+why), nil
	}
	i, err := s.Disk(disk.ClusterImageName(name))
	if err != nil {
		return nil, err
	}
	return disk.OfCluster(s.cluster.getObject(name), i), nil
}

// ListingClusterImages stores an initial list of ClusterVirtualImages, as a watch does. It is for tests without
// an API server.
func (s *Disks) ListingClusterImages(all ...*v1.ClusterVirtualImage) error {
	var list []any
	for _, i := range all {
		list = append(list, i)
	}
	return s.cluster.Replace(list, "")
}
