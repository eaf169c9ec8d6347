package objects_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

const (
	diskClaim = "system-disk-test-vm-0"
	diskSpec  = "spec.vm.disks[0].volumeClaimTemplate.spec"
)

// claimOf returns the disk's claim as a VM requests it. The existing claim has these annotations.
func claimOf(t *testing.T, wants func(*v1.ClaimSpec), annotations map[string]string) objects.Claim {
	t.Helper()
	vm := sample(t, func(vm *v1.VirtualMachine) {
		spec := &vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec
		*spec = v1.ClaimSpec{Resources: spec.Resources}
		wants(spec)
	})
	claims, err := objects.Claims(vm, settings(), objects.Existing{Claims: map[string]metav1.ObjectMeta{
		diskClaim: {Labels: objects.Labels(vm), Annotations: annotations},
	}})
	require.NoError(t, err)
	return claims[1]
}

// stored returns a claim with a volume of 40 GiB.
func stored(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	c.Spec.StorageClassName, c.Spec.VolumeMode, c.Spec.VolumeName = new("slow"), new(corev1.PersistentVolumeBlock), "pv"
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("40Gi")}
	c.Status.Phase = corev1.ClaimBound
	change(c)
	return c
}

// Differences in a claim's immutable fields are recorded in the claim, so that they are known without a read, and are
// reported with the actual values.
func TestWhatAClaimKeeps(t *testing.T) {
	t.Parallel()
	type (
		spec  = v1.ClaimSpec
		claim = corev1.PersistentVolumeClaim
	)
	const once, many = corev1.ReadWriteOnce, corev1.ReadWriteMany
	modes := func(all ...corev1.PersistentVolumeAccessMode) []corev1.PersistentVolumeAccessMode { return all }
	for what, row := range map[string]struct {
		wants func(*spec)
		has   func(*claim)
		kept  string // field: actual -> desired
	}{
		"nothing": {func(*spec) {}, func(*claim) {}, ""},
		"another class": {
			func(s *spec) { s.StorageClassName = new("fast") }, func(*claim) {}, "storageClassName: slow -> fast",
		},
		"no class": {
			func(s *spec) { s.StorageClassName = new("fast") }, func(c *claim) { c.Spec.StorageClassName = nil },
			"storageClassName: none -> fast",
		},
		"a class as of old": {func(s *spec) { s.StorageClassName = new("fast") }, func(c *claim) {
			c.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: "fast"}
		}, ""},
		"another mode": {
			func(s *spec) { s.AccessModes = modes(many) }, func(*claim) {},
			"accessModes: ReadWriteOnce -> ReadWriteMany",
		},
		"one of its modes": {
			func(s *spec) { s.AccessModes = modes(once) },
			func(c *claim) { c.Spec.AccessModes = modes(many, once) }, "",
		},
		"its modes in another order": {
			func(s *spec) { s.AccessModes = modes(many, once) },
			func(c *claim) { c.Spec.AccessModes = modes(once, many) }, "",
		},
		"a file system": {
			func(s *spec) { s.VolumeMode = new(corev1.PersistentVolumeFilesystem) }, func(*claim) {},
			"volumeMode: Block -> Filesystem!",
		},
		"another volume": {func(s *spec) { s.VolumeName = "other" }, func(*claim) {}, "volumeName: pv -> other"},
		"a selector": {func(s *spec) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, func(*claim) {}, "selector: none -> a=b"},
		"a source": {func(s *spec) {
			s.DataSource = &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "s"}
		}, func(*claim) {}, "dataSource: none -> VolumeSnapshot s"},
		"another source": {func(s *spec) {
			s.DataSourceRef = &corev1.TypedObjectReference{Kind: "X", Name: "s"}
		}, func(c *claim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "X", Name: "r"}
		}, "dataSourceRef: X r -> X s"},
	} {
		c := claimOf(t, row.wants, nil)
		require.True(t, c.Stale)
		text, err := c.Change(stored(row.has))
		require.NoError(t, err)
		require.Nil(t, c.Problem)
		var patch struct {
			Metadata struct {
				ResourceVersion string
				Annotations     map[string]*string
			}
			Spec map[string]any
		}
		require.NoError(t, json.Unmarshal(text, &patch))
		require.Equal(t, "7", patch.Metadata.ResourceVersion)
		require.Contains(t, patch.Spec, "resources", what)
		note, noted := patch.Metadata.Annotations[objects.AnnotationKept]
		require.True(t, noted, "one that no longer holds is removed")
		require.Equal(t, row.kept == "", note == nil, what)
		require.Equal(t, row.kept, kept(t, c), what)
		if note != nil {
			again := claimOf(t, row.wants, map[string]string{objects.AnnotationKept: *note})
			require.Equal(t, c.Kept, again.Kept, what)
		}
	}
	c := claimOf(t, func(s *v1.ClaimSpec) { s.StorageClassName = new("fast") }, nil)
	text, err := c.Change(stored(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.StorageClassName, c.Spec.VolumeName = nil, ""
	}))
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata": {"resourceVersion": "7"}, "spec": {"storageClassName": "fast"}}`, string(text),
		"it waits for one")
}

// kept returns the differences that a claim keeps, with "!" before those that prevent the VM's start.
func kept(t *testing.T, c objects.Claim) (all string) {
	t.Helper()
	for _, p := range c.Kept {
		found := regexp.MustCompile(`exists with (.+), which cannot change to (.+): ask for (.+), or give`).
			FindStringSubmatch(p.Message)
		require.Equal(t, found[1], found[3])
		all += strings.TrimPrefix(p.Path, diskSpec+".") + ": " + found[1] + " -> " + found[2]
		if p.Fatal {
			all += "!"
		}
	}
	return all
}

// Problems of a claim are described in terms of the VM.
func TestClaimsAreExplained(t *testing.T) {
	t.Parallel()
	class := func(name *string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = name }
	}
	sized := func(size string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
		}
	}
	c := claimOf(t, func(*v1.ClaimSpec) {}, nil)
	const stays = diskSpec + ".resources.requests.storage: the claim " + diskClaim +
		" stays at 30Gi and does not grow to 40Gi: "
	for want, change := range map[string]func(*corev1.PersistentVolumeClaim){
		stays + "request 30Gi, or let the storage class slow expand volumes (allowVolumeExpansion: true); " +
			"no": sized("30Gi"),
		stays + "it can grow once it has a volume; no": func(c *corev1.PersistentVolumeClaim) {
			c.Status.Phase = corev1.ClaimPending
			sized("30Gi")(c)
		},
		stays + "request 30Gi; a volume without a storage class can't grow; no": func(c *corev1.PersistentVolumeClaim) {
			class(new(""))(c)
			sized("30Gi")(c)
		},
		strings.TrimSuffix(diskSpec, ".spec") + ": the claim " + diskClaim + " stays as it is: no": sized("40Gi"),
	} {
		require.Equal(t, want, c.Refused(stored(change), "no"))
	}
	const none, field = "the claim " + diskClaim + " has no volume: ", diskSpec + ".storageClassName"
	for want, change := range map[string]func(*corev1.PersistentVolumeClaim){
		none + "it names no storage class, and the cluster has no default one (set " + field + ")": class(nil),
		none + "its storage class is empty (" + field + "), so an administrator has to create a PersistentVolume " +
			"for it": class(new("")),
		none + "check that the storage class slow exists (" + field + "), and that its provisioner is " +
			"running": class(new("slow")),
	} {
		require.Equal(t, want, c.Unbound(stored(change), ""))
	}
	require.Equal(t, none+"no space ("+field+")", c.Unbound(stored(class(nil)), "no space"))

	_, err := c.Change(stored(sized("50Gi")))
	require.NoError(t, err)
	require.Equal(t, diskSpec+".resources.requests.storage: the volume stays at 50Gi: volumes can grow, but not "+
		"shrink to 40Gi", c.Problem.String())
	again := claimOf(t, func(*v1.ClaimSpec) {}, map[string]string{objects.AnnotationStorage: "50Gi"})
	require.Equal(t, c.Problem, again.Problem, "known without a read")
	require.Nil(t, claimOf(t, func(*v1.ClaimSpec) {}, map[string]string{objects.AnnotationStorage: "40Gi"}).Problem)
}
