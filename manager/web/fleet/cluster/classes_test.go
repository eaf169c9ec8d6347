package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/web/fleet"
	"vmop/test/wait"
)

// class creates a storage class until the test ends.
func (p *place) class(name string, annotations map[string]string) {
	p.t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: annotations, Labels: map[string]string{"of": p.Name},
		},
		Provisioner: "example.org/none", Parameters: map[string]string{"password": "canary"},
	}
	require.NoError(p.t, p.admin.Create(p.t.Context(), class))
}

// A manager with the permission of its cluster role offers the storage classes, at most half a minute old.
func TestStorageClasses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	always := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		require.NoError(t, p.admin.DeleteAllOf(always, &storagev1.StorageClass{}, client.MatchingLabels{"of": p.Name}))
	})
	var passed atomic.Int64
	p.opts.Now = func() time.Time { return time.Unix(passed.Load(), 0) }
	offered := func(ctx context.Context) *fleet.Classes {
		offer, err := p.Offer(ctx)
		require.NoError(t, err)
		require.NotNil(t, offer.Classes, "a disk can have one")
		return offer.Classes
	}
	later := func() { passed.Add(int64(classesTime / time.Second)) }

	slow, fast := p.Name+"-slow", p.Name+"-fast"
	p.class(slow, map[string]string{isDefaultClass: "false"})
	require.Equal(t, &fleet.Classes{}, offered(t.Context()), "it may not list them")
	dir := t.TempDir()
	require.NoError(t, p.ApplyDeploy(t.Context(), p.Name, dir, ""))
	wait.Until(t, func() bool {
		later()
		return offered(t.Context()).Names != nil
	})
	require.Contains(t, offered(t.Context()).Names, slow)

	p.class(fast, map[string]string{isDefaultClass: "true"})
	require.NotContains(t, offered(t.Context()).Names, fast, "they are kept")
	later()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, &fleet.Classes{}, offered(gone), "the user has typed on")
	classes := offered(t.Context())
	require.Equal(t, fast, classes.Default)
	require.Subset(t, classes.Names, []string{slow, fast})
	require.IsIncreasing(t, classes.Names)

	for i := range mostClasses {
		p.class(fmt.Sprintf("%s-%d", p.Name, i), nil)
	}
	later()
	require.Equal(t, &fleet.Classes{}, offered(t.Context()), "there are more than a list has")
	require.NotContains(t, p.log.String(), "storage classes", "nothing of that is a failure")
}

// The default class is the same as the API server's choice.
func TestDefaultStorageClass(t *testing.T) {
	t.Parallel()
	var list []metav1.PartialObjectMetadata
	for i, name := range []string{"none", "old", "young-b", "young-a"} {
		list = append(list, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(int64(min(i, 2)), 0),
			Annotations: map[string]string{isDefaultClass: fmt.Sprint(i > 0)},
		}})
	}
	require.Equal(t, "young-a", classesOf(list).Default)
	require.Equal(t, "old", classesOf(list[:2]).Default)
	require.Equal(t, &fleet.Classes{Names: []string{"none"}}, classesOf(list[:1]))
	require.Equal(t, &fleet.Classes{Names: []string{}}, classesOf(nil), "known, but there are none")
}
