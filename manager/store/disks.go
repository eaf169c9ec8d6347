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
	"vmop/manager/vm/objects"
)

// Disks stores the disks or the images of one namespace, with their claims, the pods that import, the metadata of
// Secrets for sources, and the cluster's storage classes. It is separate from Store, because a manager also works
// without it. It is safe for concurrent use.
type Disks struct {
	notice

	namespace string
	disks     *collection[*v1.VirtualDisk]
	images    *collection[*v1.VirtualImage] // replaces disks in a store of images, otherwise nil
	cluster   *few[*v1.ClusterVirtualImage] // only with images
	shared    bool                          // another Disks follows secrets and classes
	claims    *collection[*corev1.PersistentVolumeClaim]
	pods      *collection[*corev1.Pod] // that import
	secrets   map[corev1.SecretType]*collection[*objects.Metadata]
	classes   *few[*storagev1.StorageClass]

	mu      sync.Mutex
	failure error // error of the last attempt to list disks
}

// NewDisks returns an empty store of disks. It calls changed when a disk, or its claim, is created, changed or
// deleted. It calls all after a change that may concern all disks.
func NewDisks(namespace string, changed func(disk string), all func()) *Disks {
	by := newCompressor()
	s := &Disks{namespace: namespace}
	changed = s.thenNotify(changed)
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

// NewImages returns an empty store of images (disk.AsDisk), which shares the Secrets and storage classes of a
// store of disks. It calls cluster for each ClusterVirtualImage that is created, changed or deleted, and clusters
// when the ClusterVirtualImages become known.
func NewImages(of *Disks, changed, cluster func(image string), clusters func()) *Disks {
	by := newCompressor()
	s := &Disks{namespace: of.namespace, shared: true, secrets: of.secrets, classes: of.classes}
	changed = s.thenNotify(changed)
	s.images = newCollection(imageEncoding(of.namespace), by, func(name string, _ record) { changed(name) })
	s.keepWork(by, changed)
	s.keepClusterImages(cluster, clusters)
	return s
}

// keepWork adds the collections of claims and pods.
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

// diskEncoding stores disks as JSON, grouped by the VM that uses them, otherwise by the claim that they are
// copying.
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
		group:     func(d *v1.VirtualDisk) string { return cmp.Or(disk.Holder(d), copyGroup(d)) },
		irregular: func(_, group string) bool { return group != "" },
	}
}

// copyGroup returns the group of a disk or image that is copying a claim, otherwise "".
func copyGroup(d *v1.VirtualDisk) string {
	if claim := disk.CopiesClaim(d); claim != "" {
		return copiesOf(claim)
	}
	return ""
}

// copiesOf returns the group of a claim's copies. It is never the name of a VM.
func copiesOf(claim string) string { return "pvc/" + claim }

// imageEncoding stores images as JSON, grouped by the claim that they are copying.
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
		group:     func(i *v1.VirtualImage) string { return copyGroup(disk.AsDisk(i)) },
		irregular: func(_, group string) bool { return group != "" },
	}
}

// trimmedDisk returns the stored part of a disk's metadata.
func trimmedDisk(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		DeletionTimestamp: m.DeletionTimestamp, Annotations: entriesOf(m.Annotations, []string{v1.AnnotationExport}),
		OwnerReferences: m.OwnerReferences,
	}
}

// claimEncoding groups the claims of disks by disk.
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

// annotationDefaultClass marks the storage class for claims that do not name a storage class.
const annotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

func trimStorageClass(c *storagev1.StorageClass) {
	*c = storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: c.Name, CreationTimestamp: c.CreationTimestamp, ResourceVersion: c.ResourceVersion,
			Annotations: entriesOf(c.Annotations, []string{annotationDefaultClass}),
		},
		VolumeBindingMode: c.VolumeBindingMode, AllowVolumeExpansion: c.AllowVolumeExpansion,
	}
}

func storageClassDiffers(was, is *storagev1.StorageClass) bool {
	grows := func(c *storagev1.StorageClass) bool { return c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion }
	return was.Annotations[annotationDefaultClass] != is.Annotations[annotationDefaultClass] || grows(was) != grows(is)
}

// Disk returns a disk, or an image as a disk (disk.AsDisk); nil if it does not exist.
func (s *Disks) Disk(name string) (*v1.VirtualDisk, error) {
	if s.images == nil {
		return s.disks.getObject(name)
	}
	i, err := s.images.getObject(name)
	if i == nil || err != nil {
		return nil, err
	}
	return disk.AsDisk(i), nil
}

// Claim returns the trimmed claim of a disk, or nil if it does not exist.
func (s *Disks) Claim(of string) (*corev1.PersistentVolumeClaim, error) {
	d, err := s.Disk(of)
	if d == nil || err != nil {
		return nil, err
	}
	return s.claims.getObject(disk.ClaimOf(d))
}

// ClaimNamed returns a trimmed claim by its name, or nil if it does not exist.
func (s *Disks) ClaimNamed(name string) (*corev1.PersistentVolumeClaim, error) {
	return s.claims.getObject(name)
}

// Of returns the names of a VM's disks.
func (s *Disks) Of(vm string) []string { return s.disks.irregularNames(vm) }

// CopiesOf returns the names of the disks or images that are copying a claim. The claim does not belong to a
// disk.
func (s *Disks) CopiesOf(claim string) []string {
	if s.images != nil {
		return s.images.irregularNames(copiesOf(claim))
	}
	return s.disks.irregularNames(copiesOf(claim))
}

// Names returns the names of all disks, or images.
func (s *Disks) Names() []string {
	if s.images != nil {
		return s.images.objectNames()
	}
	return s.disks.objectNames()
}

// Class returns the storage class that a claim has or will get; "" means the cluster's default class.
func (s *Disks) Class(name string) disk.Classes {
	if s.classes.whyUnknown() != "" {
		return disk.Classes{}
	}
	if name != "" {
		return disk.Classes{Known: true, Class: s.classes.getObject(name)}
	}
	var found *storagev1.StorageClass // among several, Kubernetes uses the newest, or the first by name
	for _, c := range s.classes.listObjects() {
		switch {
		case c.Annotations[annotationDefaultClass] != "true":
		case found == nil, found.CreationTimestamp.Before(&c.CreationTimestamp),
			found.CreationTimestamp.Equal(&c.CreationTimestamp) && c.Name < found.Name:
			found = c
		}
	}
	return disk.Classes{Known: true, Class: found}
}

// Learn stores the result of a write, unless the watch has already delivered that version or a later version.
func (s *Disks) Learn(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualDisk:
		return s.disks.learnWrite(o)
	case *v1.VirtualImage:
		return s.images.learnWrite(o)
	case *corev1.PersistentVolumeClaim:
		return s.claims.learnWrite(o)
	case *corev1.Pod:
		return s.pods.learnWrite(o)
	}
	return errors.New("store an object: there is no collection of its kind")
}

// Forget removes an object that a write has found deleted.
func (s *Disks) Forget(object client.Object) error {
	switch o := object.(type) {
	case *v1.VirtualDisk:
		return s.disks.forgetObject(o)
	case *v1.VirtualImage:
		return s.images.forgetObject(o)
	case *corev1.PersistentVolumeClaim:
		return s.claims.forgetObject(o)
	case *corev1.Pod:
		return s.pods.forgetObject(o)
	}
	return errors.New("remove an object from the store: there is no collection of its kind")
}

// Listing stores an initial list of all objects, as a watch does. It is for tests without an API server.
func (s *Disks) Listing(disks []*v1.VirtualDisk, claims []*corev1.PersistentVolumeClaim,
	pods []*corev1.Pod, classes []*storagev1.StorageClass,
) error {
	list := make([]any, 0, len(classes))
	for _, c := range classes {
		list = append(list, c)
	}
	errs := []error{
		replaceAll(s.disks, disks), replaceAll(s.claims, claims), replaceAll(s.pods, pods), s.classes.Replace(list, ""),
	}
	for _, c := range s.secrets {
		errs = append(errs, replaceAll(c, nil))
	}
	return errors.Join(errs...)
}

// ListingImages does the same as Listing for images, with an empty list of ClusterVirtualImages. The store of
// disks provides the Secrets and storage classes.
func (s *Disks) ListingImages(images []*v1.VirtualImage, claims []*corev1.PersistentVolumeClaim,
	pods []*corev1.Pod,
) error {
	return errors.Join(replaceAll(s.images, images), replaceAll(s.claims, claims), replaceAll(s.pods, pods),
		s.ListingClusterImages())
}

// Follow keeps the disks in sync with the API server until ctx is done.
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
		runReflector(ctx, &running, noted, s.namespace, s.images, client.ListOptions{},
			&v1.VirtualImage{}, func() client.ObjectList { return &v1.VirtualImageList{} })
		running.Go(func() {
			followFew(ctx, from, s.cluster, &v1.ClusterVirtualImage{},
				func() client.ObjectList { return &v1.ClusterVirtualImageList{} })
		})
	} else {
		runReflector(ctx, &running, noted, s.namespace, s.disks, client.ListOptions{},
			&v1.VirtualDisk{}, func() client.ObjectList { return &v1.VirtualDiskList{} })
	}
	ours := client.ListOptions{LabelSelector: labels.Set{objects.LabelName: app}.AsSelector()}
	runReflector(ctx, &running, from, s.namespace, s.claims, ours,
		&corev1.PersistentVolumeClaim{}, func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} })
	runReflector(ctx, &running, from, s.namespace, s.pods, ours,
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
		runReflector(ctx, &running, from, s.namespace, c, some, &objects.Metadata{}, metadataList(objects.KindSecret))
	}
}

// allLists returns the channels that are closed when each kind has been listed.
func (s *Disks) allLists() lists {
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

// Listed returns nil if all objects have been listed, otherwise the reason. Callers must not decide anything
// before.
func (s *Disks) Listed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.allLists().areComplete() {
		return cmp.Or(s.failure, errNotListed)
	}
	return nil
}

var errNotListed = errors.New("their list has not been read yet")

// Await waits until all objects have been listed, or ctx is done.
func (s *Disks) Await(ctx context.Context) { s.allLists().awaitLists(ctx) }
