package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/web/fleet"
)

const (
	// mostClasses is the maximum number of storage classes to offer. If there are more, forms offer no classes.
	mostClasses = 500
	// classesTime is how long the storage classes are cached. patienceForClasses is how long a form waits for them.
	classesTime, patienceForClasses = 30 * time.Second, 5 * time.Second
	// isDefaultClass is the annotation of the default storage class.
	isDefaultClass = "storageclass.kubernetes.io/is-default-class"
)

// keptClasses are the cached storage classes.
type keptClasses struct {
	of    *fleet.Classes
	until time.Time
}

// storageClasses returns the storage classes of the cluster; empty if they are unknown. The manager needs permission to
// list them, from the cluster role vm-operator-cluster. Without it the form still works, but offers no classes.
//
// See docs/decisions/0083-storage-classes.md.
func (f *Fleet) storageClasses(ctx context.Context) *fleet.Classes {
	f.mu.Lock()
	kept, now := f.classes, f.opts.Now()
	f.mu.Unlock()
	if now.Before(kept.until) {
		return kept.of
	}
	bounded, cancel := context.WithTimeout(ctx, patienceForClasses)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{} // without the parameters, which are not for users
	list.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("StorageClassList"))
	err := f.opts.Client.List(bounded, list, client.Limit(mostClasses))
	if err != nil && !apierrors.IsForbidden(err) {
		if ctx.Err() == nil {
			f.opts.Log.Warn("the storage classes can't be listed", "err", err)
		}
		return &fleet.Classes{}
	}
	kept = keptClasses{of: &fleet.Classes{}, until: now.Add(classesTime)}
	if err == nil && list.Continue == "" {
		kept.of = classesOf(list.Items)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.classes = kept
	return kept.of
}

// classesOf converts a list of storage classes. If there are several defaults, the API server uses the newest, and the
// first by name among equally new ones.
func classesOf(list []metav1.PartialObjectMetadata) *fleet.Classes {
	classes := &fleet.Classes{Names: []string{}}
	var defaults []metav1.PartialObjectMetadata
	for _, c := range list {
		classes.Names = append(classes.Names, c.Name)
		if c.Annotations[isDefaultClass] == "true" {
			defaults = append(defaults, c)
		}
	}
	slices.Sort(classes.Names)
	if len(defaults) > 0 {
		classes.Default = slices.MinFunc(defaults, func(a, b metav1.PartialObjectMetadata) int {
			return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		}).Name
	}
	return classes
}
