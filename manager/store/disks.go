package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/objects"
)

// Disks has the disks of one namespace, or its images, their claims, the pods that import, the metadata
// of Secrets for sources, and the storage classes of the cluster. It is apart from the Store, as a manager
// works without it. Its methods may be called by several goroutines.
type Disks struct {
	notice

	namespace string
	disks     *collection[*v1.VirtualDisk]
	images    *collection[*v1.VirtualImage] // in the place of disks; nil: none
	cluster   *few[*v1.ClusterVirtualImage] // with images
	shared    bool                          // secrets and classes, which another one follows
	claims    *collection[*corev1.PersistentVolumeClaim]
	pods      *collection[*corev1.Pod] // that import
	secrets   map[corev1.SecretType]*collection[*objects.Metadata]
	classes   *few[*storagev1.StorageClass]

	mu      sync.Mutex
	failure error // of the last attempt to list disks
}

// NewDisks returns one that is empty. changed is called for each disk that is new, has changed, or
// is gone, or whose claim has; all is called when something has changed that may concern all.
func NewDisks(namespace string, changed func(disk string), all func()) *Disks {
	by := newCompressor()
	s := &Disks{namespace: namespace}
	changed = s.after(changed)
	s.disks = newCollection(diskEncoding(namespace), by, func(name string, _ record) { changed(name) })
	s.keepWork(by, changed)
	s.secrets = newSourceSecrets(namespace, by, all)
	s.classes = newFew(trimStorageClass, func(was, is *storagev1.StorageClass) {
		if was == nil || is == nil || storageClassDiffers(was, is) {
			all()
		}
	}, all)
	return s
}

// NewImages returns one for images (disk.AsDisk) that is empty, and has Secrets and storage classes of
// the disks. cluster is called for each ClusterVirtualImage that is new, has changed, or is gone, clusters when these
// are known after they were not.
func NewImages(of *Disks, changed, cluster func(image string), clusters func()) *Disks {
	by := newCompressor()
	s := &Disks{namespace: of.namespace, shared: true, secrets: of.secrets, classes: of.classes}
	changed = s.after(changed)
	s.images = newCollection(imageEncoding(of.namespace), by, func(name string, _ record) { changed(name) })
	s.keepWork(by, changed)
	s.keepClusterImages(cluster, clusters)
	return s
}

// keepWork makes the collections of claims and pods.
func (s *Disks) keepWork(by *compressor, changed func(name string)) {
	namespace := s.namespace
	s.claims = newCollection(claimEncoding(namespace), by, func(_ string, r record) {
		if r.group != "" {
			changed(r.group)
		}
	})
	s.pods = newCollection(importPodEncoding(namespace), by, func(_ string, r record) {
		if r.group != "" {
			changed(r.group)
		}
	})
}

// diskEncoding is how disks are kept: as JSON, found by the VM that has them, or the claim that they copy.
func diskEncoding(namespace string) encoding[*v1.VirtualDisk] {
	return encoding[*v1.VirtualDisk]{
		trim: func(d *v1.VirtualDisk) {
			d.TypeMeta, d.ObjectMeta = metav1.TypeMeta{}, trimmedDisk(&d.ObjectMeta)
		},
		encode: func(d *v1.VirtualDisk) ([]byte, error) { return json.Marshal(d) },
		decode: func(text []byte) (*v1.VirtualDisk, error) {
			d := &v1.VirtualDisk{}
			err := json.Unmarshal(text, d)
			d.Namespace = namespace
			return d, err
		},
		group:     func(d *v1.VirtualDisk) string { return cmp.Or(disk.Holder(d), copying(d)) },
		irregular: func(_, group string) bool { return group != "" },
	}
}

// copying returns the group of disks, or images, into which a claim is copied; "" if none is.
func copying(d *v1.VirtualDisk) string {
	if claim := disk.CopiesClaim(d); claim != "" {
		return copiesOf(claim)
	}
	return ""
}

// copiesOf returns the group of the copies of a claim. It is no VM's name.
func copiesOf(claim string) string { return "pvc/" + claim }

// imageEncoding is how images are kept: as JSON, found by the claim that they copy.
func imageEncoding(namespace string) encoding[*v1.VirtualImage] {
	return encoding[*v1.VirtualImage]{
		trim: func(i *v1.VirtualImage) {
			i.TypeMeta, i.ObjectMeta = metav1.TypeMeta{}, trimmedDisk(&i.ObjectMeta)
		},
		encode: func(i *v1.VirtualImage) ([]byte, error) { return json.Marshal(i) },
		decode: func(text []byte) (*v1.VirtualImage, error) {
			i := &v1.VirtualImage{}
			err := json.Unmarshal(text, i)
			i.Namespace = namespace
			return i, err
		},
		group:     func(i *v1.VirtualImage) string { return copying(disk.AsDisk(i)) },
		irregular: func(_, group string) bool { return group != "" },
	}
}

// trimmedDisk returns what is kept of the metadata of a disk.
func trimmedDisk(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		DeletionTimestamp: m.DeletionTimestamp, Annotations: entries(m.Annotations, []string{v1.AnnotationExport}),
		OwnerReferences: m.OwnerReferences,
	}
}

// claimEncoding is how the claims of disks are kept, each found by its disk.
func claimEncoding(namespace string) encoding[*corev1.PersistentVolumeClaim] {
	return encoding[*corev1.PersistentVolumeClaim]{
		trim: func(c *corev1.PersistentVolumeClaim) {
			kept := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion, DeletionTimestamp: c.DeletionTimestamp,
				OwnerReferences: c.OwnerReferences,
			}}
			kept.Spec.Resources, kept.Spec.StorageClassName = c.Spec.Resources, c.Spec.StorageClassName
			kept.Status.Phase, kept.Status.Capacity = c.Status.Phase, c.Status.Capacity
			for _, condition := range c.Status.Conditions {
				if condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending {
					kept.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
						{Type: condition.Type, Status: condition.Status},
					}
				}
			}
			*c = kept
		},
		encode: (*corev1.PersistentVolumeClaim).Marshal,
		decode: func(text []byte) (*corev1.PersistentVolumeClaim, error) {
			c := &corev1.PersistentVolumeClaim{}
			err := c.Unmarshal(text)
			c.Namespace = namespace
			return c, err
		},
		group: func(c *corev1.PersistentVolumeClaim) string { return disk.Owner(c) },
		quiet: true,
	}
}

// annotationDefaultClass marks the storage class of claims that name none.
const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

func trimStorageClass(c *storagev1.StorageClass) {
	*c = storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: c.Name, CreationTimestamp: c.CreationTimestamp, ResourceVersion: c.ResourceVersion,
			Annotations: entries(c.Annotations, []string{annotationDefaultClass}),
		},
		VolumeBindingMode: c.VolumeBindingMode, AllowVolumeExpansion: c.AllowVolumeExpansion,
	}
}

func storageClassDiffers(was, is *storagev1.StorageClass) bool {
	grows := func(c *storagev1.StorageClass) bool { return c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion }
	return was.Annotations[annotationDefaultClass] != is.Annotations[annotationDefaultClass] || grows(was) != grows(is)
}

// Disk returns a disk, or an image as a disk (disk.AsDisk); nil if there is none of that name.
func (s *Disks) Disk(name string) (*v1.VirtualDisk, error) {
	if s.images == nil {
		return s.disks.get(name)
	}
	i, err := s.images.get(name)
	if i == nil || err != nil {
		return nil, err
	}
	return disk.AsDisk(i), nil
}

// Claim returns the claim of a disk, as far as it is kept; nil if there is none.
func (s *Disks) Claim(of string) (*corev1.PersistentVolumeClaim, error) {
	d, err := s.Disk(of)
	if d == nil || err != nil {
		return nil, err
	}
	return s.claims.get(disk.ClaimOf(d))
}

// ClaimNamed returns a claim of disks by its name, as far as it is kept; nil if there is none.
func (s *Disks) ClaimNamed(name string) (*corev1.PersistentVolumeClaim, error) {
	return s.claims.get(name)
}

// Of returns the names of the disks that a VM has.
func (s *Disks) Of(vm string) []string { return s.disks.irregularNames(vm) }

// CopiesOf returns the names of the disks, or images, into which a claim is copied that is none's.
func (s *Disks) CopiesOf(claim string) []string {
	if s.images != nil {
		return s.images.irregularNames(copiesOf(claim))
	}
	return s.disks.irregularNames(copiesOf(claim))
}

// Names returns the names of all disks, or images.
func (s *Disks) Names() []string {
	if s.images != nil {
		return s.images.names()
	}
	return s.disks.names()
}

// Class returns the storage class that a claim has, or gets; "" is the cluster's default one.
func (s *Disks) Class(name string) disk.Classes {
	if s.classes.why() != "" {
		return disk.Classes{}
	}
	if name != "" {
		return disk.Classes{Known: true, Class: s.classes.get(name)}
	}
	var found *storagev1.StorageClass // of several, Kubernetes takes the newest, and of these the first by name
	for _, c := range s.classes.list() {
		switch {
		case c.Annotations[annotationDefaultClass] != "true":
		case found == nil, found.CreationTimestamp.Before(&c.CreationTimestamp),
			found.CreationTimestamp.Equal(&c.CreationTimestamp) && c.Name < found.Name:
			found = c
		}
	}
	return disk.Classes{Known: true, Class: found}
}

// Learn stores what a write has returned, unless the watch has brought that or later.
func (s *Disks) Learn(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualDisk:
		return s.disks.learn(o)
	case *v1.VirtualImage:
		return s.images.learn(o)
	case *corev1.PersistentVolumeClaim:
		return s.claims.learn(o)
	case *corev1.Pod:
		return s.pods.learn(o)
	}
	return errors.New("store an object: there is no collection of its kind")
}

// Forget removes what a write has found to be gone.
func (s *Disks) Forget(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualDisk:
		return s.disks.forget(o)
	case *v1.VirtualImage:
		return s.images.forget(o)
	case *corev1.PersistentVolumeClaim:
		return s.claims.forget(o)
	case *corev1.Pod:
		return s.pods.forget(o)
	}
	return errors.New("remove an object from the store: there is no collection of its kind")
}

// Listing stores a first list of everything, as a watch does. It is for tests without an API
// server.
func (s *Disks) Listing(disks []*v1.VirtualDisk, claims []*corev1.PersistentVolumeClaim,
	pods []*corev1.Pod, classes []*storagev1.StorageClass,
) error {
	list := make([]any, 0, len(classes))
	for _, c := range classes {
		list = append(list, c)
	}
	errs := []error{
		replace(s.disks, disks), replace(s.claims, claims), replace(s.pods, pods), s.classes.Replace(list, ""),
	}
	for _, c := range s.secrets {
		errs = append(errs, replace(c, nil))
	}
	return errors.Join(errs...)
}

// ListingImages is Listing for images, without any of the cluster. Their Secrets and classes are those of the disks.
func (s *Disks) ListingImages(images []*v1.VirtualImage, claims []*corev1.PersistentVolumeClaim,
	pods []*corev1.Pod,
) error {
	return errors.Join(replace(s.images, images), replace(s.claims, claims), replace(s.pods, pods),
		s.ListingClusterImages())
}

// Follow keeps the disks as the API server has them, until ctx is done.
func (s *Disks) Follow(ctx context.Context, from client.WithWatch) {
	var running sync.WaitGroup
	defer running.Wait()
	noted := noting{from, func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failure = err
	}}
	app := disk.AppName
	if s.images != nil {
		app = disk.ImageAppName
		follow(ctx, &running, noted, s.namespace, s.images, client.ListOptions{},
			&v1.VirtualImage{}, func() client.ObjectList { return &v1.VirtualImageList{} })
		running.Go(func() {
			followFew(ctx, from, s.cluster, &v1.ClusterVirtualImage{},
				func() client.ObjectList { return &v1.ClusterVirtualImageList{} })
		})
	} else {
		follow(ctx, &running, noted, s.namespace, s.disks, client.ListOptions{},
			&v1.VirtualDisk{}, func() client.ObjectList { return &v1.VirtualDiskList{} })
	}
	ours := client.ListOptions{LabelSelector: labels.Set{objects.LabelName: app}.AsSelector()}
	follow(ctx, &running, from, s.namespace, s.claims, ours,
		&corev1.PersistentVolumeClaim{}, func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} })
	follow(ctx, &running, from, s.namespace, s.pods, ours,
		&corev1.Pod{}, func() client.ObjectList { return &corev1.PodList{} })
	if s.shared {
		return
	}
	running.Go(func() {
		followFew(ctx, from, s.classes, &storagev1.StorageClass{},
			func() client.ObjectList { return &storagev1.StorageClassList{} })
	})
	for t, c := range s.secrets {
		some := client.ListOptions{FieldSelector: fields.OneTermEqualSelector("type", string(t))}
		follow(ctx, &running, from, s.namespace, c, some, &objects.Metadata{}, metadataList(objects.KindSecret))
	}
}

// all returns what is closed when each of the lists is there.
func (s *Disks) all() lists {
	all := lists{s.claims.listed, s.pods.listed, s.classes.tried}
	if s.images != nil {
		all = append(all, s.images.listed, s.cluster.tried)
	} else {
		all = append(all, s.disks.listed)
	}
	for _, c := range s.secrets {
		all = append(all, c.listed)
	}
	return all
}

// Listed returns nil if all has been listed, else why not: nothing may be decided before.
func (s *Disks) Listed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.all().there() {
		return cmp.Or(s.failure, errNotListed)
	}
	return nil
}

var errNotListed = errors.New("their list is not there yet")

// Await waits until all has been listed, or ctx is done.
func (s *Disks) Await(ctx context.Context) { s.all().await(ctx) }
