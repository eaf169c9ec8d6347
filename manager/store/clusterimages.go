package store

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// keepClusterImages makes images know the ClusterVirtualImages. changed is called for each that is new, has changed
// or is gone, and what shows images then with the name of that in the namespace; listed when they are known after they
// were not.
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

// ClusterImage returns a ClusterVirtualImage, which must not be changed; nil if there is none of that name.
func (s *Disks) ClusterImage(name string) *v1.ClusterVirtualImage { return s.cluster.get(name) }

// ClusterImages returns all ClusterVirtualImages, which must not be changed, and why they are not known.
func (s *Disks) ClusterImages() (all []*v1.ClusterVirtualImage, unavailable string) {
	return s.cluster.list(), s.cluster.why()
}

// OfCluster returns the image that is meant by the name of a ClusterVirtualImage, as disk.OfCluster has it; nil if
// there is none.
func (s *Disks) OfCluster(name string) (*v1.VirtualDisk, error) {
	if why := s.cluster.why(); why != "" {
		return disk.Unavailable(name, "ClusterVirtualImages are not known: "+why), nil
	}
	i, err := s.Disk(disk.ClusterImageName(name))
	if err != nil {
		return nil, err
	}
	return disk.OfCluster(s.cluster.get(name), i), nil
}

// ListingClusterImages stores a first list of ClusterVirtualImages, as a watch does. It is for tests without an API
// server.
func (s *Disks) ListingClusterImages(all ...*v1.ClusterVirtualImage) error {
	var list []any
	for _, i := range all {
		list = append(list, i)
	}
	return s.cluster.Replace(list, "")
}
