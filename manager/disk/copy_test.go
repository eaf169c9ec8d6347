package disk_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// image returns an image that is ready.
func image(format string) *v1.VirtualImage {
	i := &v1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Name: "debian", UID: "i"}}
	i.Spec.DataSource = v1.VirtualDiskSource{
		Type: v1.DiskSourceHTTP, HTTP: &v1.HTTPSource{URL: "https://example.org/x"},
	}
	i.Spec.PersistentVolumeClaim.Size = resource.MustParse("10Gi")
	i.Status.Phase, i.Status.Target.UID, i.Status.Capacity = v1.DiskReady, "ic", "10Gi"
	i.Status.Import = &v1.DiskImport{
		CompletionTime: new(metav1.Unix(5, 0)), Format: format, Bytes: 342999040, VirtualSize: 3 << 30,
	}
	return i
}

// copying returns the situation of a disk that copies another object.
func copying(kind, name string, from *v1.VirtualDisk) disk.Situation {
	s := importing()
	s.Secret = disk.Secret{}
	s.Disk.Spec.DataSource = &v1.VirtualDiskSource{
		Type: v1.DiskSourceObjectRef, ObjectRef: &v1.DiskSourceRef{Kind: kind, Name: name},
	}
	s.Disk.Spec.PersistentVolumeClaim.Size = resource.MustParse("3Gi")
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
	s.Claim.Spec.Resources.Requests, s.Claim.Status.Capacity = size, size
	s.From = from
	return s
}

// A disk waits for its image, shows the reason, and copies only the bytes that belong to the image.
func TestCopyOfAnImage(t *testing.T) {
	t.Parallel()
	s := copying("VirtualImage", "debian", nil)
	is := func(reason, message string) {
		t.Helper()
		require.Equal(t, disk.Nothing, disk.Next(s))
		status := disk.StatusOf(s)
		require.Equal(t, v1.DiskPending, status.Phase)
		require.Equal(t, reason, status.Reason)
		require.Contains(t, status.Message, message)
	}
	is(disk.ReasonSourceMissing, "there is no VirtualImage debian (spec.dataSource.objectRef): the disk is created when it exists")
	s.From = disk.AsDisk(&v1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Name: "debian"}})
	is(disk.ReasonSourceNotReady, "the VirtualImage debian is new: it is copied when it is Ready")
	s.From = disk.AsDisk(image("qcow2"))
	s.Disk.Spec.PersistentVolumeClaim.Size = resource.MustParse("2Gi")
	is(disk.ReasonSmaller, "spec.persistentVolumeClaim.size: the VirtualImage debian has 3Gi, more than the 2Gi of this disk")
	s.Disk.Spec.PersistentVolumeClaim.Size = resource.MustParse("3Gi")
	require.Equal(t, disk.MakePod, disk.Next(s))

	p := disk.Pod(s.Disk, s.From, worker(), nil)
	require.Equal(t, []string{
		"clone", "--log-format=json", "--termination-log=/dev/termination-log", "--listen=:8080", "--scratch=/scratch",
		"--length=3221225472", "/dev/source", "/dev/target",
	}, p.Spec.Containers[0].Args)
	require.Equal(t, []string{"scratch", "target", "source"}, volumes(p))
	source := p.Spec.Volumes[2].PersistentVolumeClaim
	require.Equal(t, disk.ClaimOf(s.From), source.ClaimName)
	require.True(t, source.ReadOnly)

	// The claim must still belong to the image after the copy.
	s.Pod = pod("p", 1, corev1.PodPending, "")
	s.Disk.Status.Import = disk.StatusOf(s).Import
	require.EqualValues(t, "ic", s.Disk.Status.Import.Source)
	require.Equal(t, disk.StartPod, disk.Next(s))
	s.Pod = pod("p", 0, corev1.PodSucceeded, `{"reason": "Imported", "format": "raw", "virtualSize": 3221225472}`)
	done := disk.StatusOf(s).Import
	require.NotNil(t, done.CompletionTime)
	require.Equal(t, "qcow2", done.Format, "that in which the image came")
	for _, from := range []*v1.VirtualDisk{nil, disk.AsDisk(image(""))} {
		if s.From = from; from != nil {
			from.Status.Target.UID = "another"
		}
		failed := disk.StatusOf(s)
		require.Equal(t, disk.ReasonSourceChanged, failed.Import.Reason)
		require.Nil(t, failed.Import.CompletionTime)
	}
}

// A disk is copied only while no VM uses it, and no VM gets it during the copy.
func TestCopyOfADisk(t *testing.T) {
	t.Parallel()
	from := &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: "golden"}}
	from.Spec.PersistentVolumeClaim.Size = resource.MustParse("1Gi")
	from.Status.Phase, from.Status.Target.UID, from.Status.Capacity = v1.DiskReady, "gc", "4Gi"
	s := copying("VirtualDisk", "golden", from)
	require.Equal(t, disk.ReasonSmaller, disk.StatusOf(s).Reason, "all of the volume may be used")
	from.Status.Capacity = "1Gi"
	locked := disk.Lock(from, "vm", "", time.Unix(9, 0))
	has := from.DeepCopy()
	has.Status = locked
	s.From = has
	require.Equal(t, disk.ReasonSourceInUse, disk.StatusOf(s).Reason)
	_, may, why := disk.ForCopy(has, s.Disk, "p")
	require.False(t, may)
	require.Equal(t, "the VirtualDisk golden is attached to the VM vm: the copy starts when no VM uses it; "+
		"a disk can be created from a VirtualDiskSnapshot now", why.Message)

	reserved, may, why := disk.ForCopy(from, s.Disk, "p")
	require.False(t, may, "not before it is written")
	require.Nil(t, why)
	from.Status = reserved
	_, may, _ = disk.ForCopy(from, s.Disk, "p")
	require.True(t, may)
	answer, reason, message := disk.ForVM("vm", "golden", from)
	require.Equal(t, disk.Wait, answer)
	require.Equal(t, disk.ReasonCopied, reason)
	require.Equal(t, "the VirtualDisk golden is being copied into the VirtualDisk root: the VM starts when that is done", message)

	// A pod that can't start yet shows the reason.
	s.From, s.Pod = has, pod("p", 1, corev1.PodPending, "")
	s.Disk.Status.Import = &v1.DiskImport{Pod: "p", Source: "gc"}
	require.Equal(t, disk.ReasonSourceInUse, disk.StatusOf(s).Reason)

	require.False(t, disk.Ended(pod("p", 0, corev1.PodRunning, ""), "p"))
	require.True(t, disk.Ended(pod("p", 0, corev1.PodFailed, ""), "p"))
	require.True(t, disk.Ended(pod("q", 0, corev1.PodRunning, ""), "p"))
	by := from.Status.CopiedBy[0]
	require.Equal(t, "vd-root-import", disk.CopyPod(by))
	require.Empty(t, disk.Copied(from, func(v1.DiskCopy) bool { return true }).CopiedBy)
	require.Len(t, disk.Copied(from, func(v1.DiskCopy) bool { return false }).CopiedBy, 1)
}

// Converting an image to a disk and back loses nothing.
func TestImageAsDisk(t *testing.T) {
	t.Parallel()
	i := image("iso")
	i.Status = disk.ImageStatus(disk.StatusOf(disk.Situation{Disk: disk.AsDisk(i), Now: time.Unix(9, 0)}))
	require.True(t, *i.Status.CDROM)
	require.Equal(t, v1.ImageSize{
		Stored: "327.1Mi", StoredBytes: "342999040", Unpacked: "3Gi", UnpackedBytes: "3221225472",
	}, i.Status.Size)
	require.NotNil(t, meta.FindStatusCondition(i.Status.Conditions, v1.DiskConditionReady))
	require.Len(t, i.Status.Conditions, 1, "no VM has it, and it doesn't grow")
	is := disk.StatusOf(disk.Situation{Disk: disk.AsDisk(i), Now: time.Unix(10, 0)})
	require.Equal(t, disk.ImageStatus(is), i.Status)

	another := image("iso")
	another.UID = "j"
	require.NotEqual(t, disk.ClaimOf(disk.AsDisk(i)), disk.ClaimOf(disk.AsDisk(another)))
	require.Regexp(t, `^vi-debian-[0-9a-f]{8}$`, disk.ClaimOf(disk.AsDisk(i)))
}

// Any number of VMs can use a complete image.
func TestImageForVMs(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(*v1.VirtualImage) *v1.VirtualImage{
		"":                      func(i *v1.VirtualImage) *v1.VirtualImage { return i },
		disk.ReasonImageMissing: func(*v1.VirtualImage) *v1.VirtualImage { return nil },
		disk.ReasonImageDeleted: func(i *v1.VirtualImage) *v1.VirtualImage {
			i.DeletionTimestamp = &metav1.Time{}
			return i
		},
		disk.ReasonImageFailed: func(i *v1.VirtualImage) *v1.VirtualImage {
			i.Status.Phase = v1.DiskFailed
			return i
		},
		disk.ReasonImageNotReady: func(i *v1.VirtualImage) *v1.VirtualImage {
			i.Status.Import.CompletionTime = nil
			return i
		},
	} {
		var of *v1.VirtualDisk
		if i := change(image("raw")); i != nil {
			of = disk.AsDisk(i)
		}
		_, got, message := disk.ForImage(v1.KindVirtualImage, "debian", of)
		require.Equal(t, reason, got)
		require.Equal(t, reason != "", strings.Contains(message, "VirtualImage debian"))
	}
}

// The pod of an upload waits for the user, and the status shows it.
func TestUploads(t *testing.T) {
	t.Parallel()
	s := importing()
	s.Secret = disk.Secret{}
	s.Disk.Spec.DataSource = &v1.VirtualDiskSource{Type: v1.DiskSourceUpload}
	p := disk.Pod(s.Disk, nil, worker(), nil)
	require.Contains(t, strings.Join(p.Spec.Containers[0].Args, " "), "--upload --socket=/scratch/upload.sock")
	record(&s, "p")
	s.Pod = pod("p", 0, corev1.PodRunning, "")
	is := disk.StatusOf(s)
	require.Equal(t, v1.DiskUpload, is.Phase)
	require.Equal(t, "send the image: kubectl vmop disk upload root FILE", is.Message)
	s.Progress = &disk.Progress{Waits: true, Message: "the upload ended after 1 of 2 bytes"}
	require.Contains(t, disk.StatusOf(s).Message, "; the last upload has failed: the upload ended after 1 of 2 bytes")
	s.Progress = &disk.Progress{Percent: 3}
	require.Equal(t, v1.DiskProvisioning, disk.StatusOf(s).Phase)
	require.Equal(t, "3%", disk.StatusOf(s).Progress)
}

// A claim is copied only if that is allowed and nothing writes to it.
func TestCopyOfAClaim(t *testing.T) {
	t.Parallel()
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "golden", UID: "gc", Labels: map[string]string{v1.LabelDataSource: "true"},
		}}
		c.Status.Phase = corev1.ClaimBound
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")}
		change(c)
		return c
	}
	same := func(*corev1.PersistentVolumeClaim) {}
	s := copying("PersistentVolumeClaim", "golden", nil)
	require.Equal(t, disk.ReasonSourceMissing, disk.StatusOf(s).Reason)
	for _, of := range []struct {
		user, reason, message string
		change                func(*corev1.PersistentVolumeClaim)
	}{
		{
			"", disk.ReasonSourceForbidden, "kubectl label pvc golden vmoperator.jdrupes.org/data-source=true",
			func(c *corev1.PersistentVolumeClaim) { c.Labels = nil },
		},
		{
			"", disk.ReasonSourceForbidden, "belongs to the disk or image root: name that instead",
			func(c *corev1.PersistentVolumeClaim) {
				of := metav1.OwnerReference{APIVersion: v1.GroupVersion().String(), Kind: "VirtualDisk", Name: "root"}
				of.Controller = new(true)
				c.OwnerReferences = []metav1.OwnerReference{of}
			},
		},
		{
			"", disk.ReasonSourceNotReady, "the PersistentVolumeClaim golden is Pending: it is copied when it has a volume",
			func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending },
		},
		{
			"", disk.ReasonSourceMissing, "the PersistentVolumeClaim golden is being deleted",
			func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} },
		},
		{
			"", disk.ReasonSmaller, "the PersistentVolumeClaim golden has 4Gi, more than the 3Gi of this disk",
			func(c *corev1.PersistentVolumeClaim) {
				c.Status.Capacity[corev1.ResourceStorage] = resource.MustParse("4Gi")
			},
		},
		{"the pod db-0", disk.ReasonSourceInUse, "the PersistentVolumeClaim golden is in use by the pod db-0", same},
	} {
		s.From = disk.ClaimAsDisk(claim(of.change), of.user)
		require.Equal(t, of.reason, disk.StatusOf(s).Reason)
		require.Contains(t, disk.StatusOf(s).Message, of.message)
		require.Equal(t, disk.Nothing, disk.Next(s))
	}

	others := claim(func(c *corev1.PersistentVolumeClaim) {
		of := metav1.OwnerReference{Kind: "VirtualDisk", Name: "root", Controller: new(true)}
		of.APIVersion = "virtualization.deckhouse.io/v1alpha2"
		c.OwnerReferences = []metav1.OwnerReference{of}
	})
	require.Empty(t, disk.ClaimAsDisk(others, "").Status.Reason, "it is another product's disk")
	free, used := disk.ClaimAsDisk(claim(same), ""), disk.ClaimAsDisk(claim(same), "the pod db-0")
	s.From = free
	require.Equal(t, disk.MakePod, disk.Next(s))
	p := disk.Pod(s.Disk, s.From, worker(), nil)
	require.Equal(t, []string{"/source/disk.img", "/dev/target"}, p.Spec.Containers[0].Args[5:])
	require.Contains(t, p.Spec.SecurityContext.SupplementalGroups, int64(107), "KubeVirt's")
	s.Pod = pod("p", 1, corev1.PodPending, "")
	s.Disk.Status.Import = disk.StatusOf(s).Import
	require.Equal(t, "golden", disk.CopiesClaim(s.Disk))
	require.Equal(t, disk.StartPod, disk.Next(s))

	// A writer that comes first keeps the pod from starting, and the copy waits.
	s.From = used
	is := disk.StatusOf(s)
	require.Empty(t, is.Import.Pod)
	require.Zero(t, is.Import.Failures)
	begun := s.Disk.Status.Import
	s.Disk.Status.Import = is.Import
	require.Equal(t, disk.RemovePod, disk.Next(s))
	require.Equal(t, disk.ReasonSourceInUse, is.Reason)

	// A writer that comes later invalidates the copy.
	s.Disk.Status.Import = begun
	for _, state := range []*corev1.Pod{
		pod("p", 0, corev1.PodRunning, ""), pod("p", 0, corev1.PodSucceeded, `{"reason": "Imported", "format": "raw"}`),
	} {
		s.Pod = state
		failed := disk.StatusOf(s).Import
		require.Equal(t, disk.ReasonSourceChanged, failed.Reason)
		require.Nil(t, failed.CompletionTime)
	}
	s.From = free
	require.NotNil(t, disk.StatusOf(s).Import.CompletionTime)
}
