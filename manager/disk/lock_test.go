package disk_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

func TestWhichVMMayHaveADisk(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, row := range map[string]struct {
		disk   *v1.VirtualDisk
		want   disk.Answer
		reason string
	}{
		"none":              {nil, disk.Wait, disk.ReasonMissing},
		"not seen":          {of(v1.DiskPending, "", ""), disk.Wait, disk.ReasonNotReady},
		"without a claim":   {of(v1.DiskReady, "", ""), disk.Wait, disk.ReasonNotReady},
		"free":              {of(v1.DiskReady, "c", ""), disk.Take, ""},
		"its volume later":  {of(v1.DiskWaiting, "c", ""), disk.Take, ""},
		"growing":           {of(v1.DiskResizing, "c", ""), disk.Take, ""},
		"its own":           {of(v1.DiskReady, "c", "web"), disk.Has, ""},
		"another's":         {of(v1.DiskReady, "c", "other"), disk.Wait, disk.ReasonInUse},
		"failed":            {of(v1.DiskFailed, "c", ""), disk.Refuse, disk.ReasonFailed},
		"failed under it":   {of(v1.DiskFailed, "c", "web"), disk.Refuse, disk.ReasonFailed},
		"failed, another's": {of(v1.DiskFailed, "c", "other"), disk.Wait, disk.ReasonInUse},
		"deleted": {func() *v1.VirtualDisk {
			d := of(v1.DiskTerminating, "c", "")
			d.DeletionTimestamp = &now
			return d
		}(), disk.Refuse, disk.ReasonDeleted},
	} {
		what, reason, message := disk.ForVM("web", "data", row.disk)
		require.Equal(t, row.want, what, name)
		require.Equal(t, row.reason, reason, name)
		require.Equal(t, reason == "", message == "", name)
	}
}

// of returns a disk with a phase, the UID of its claim, and its VM.
func of(phase v1.DiskPhase, claim, vm string) *v1.VirtualDisk {
	d := &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	d.Status.Phase, d.Status.Target.UID = phase, "" // no claim name without a claim
	if claim != "" {
		d.Status.Target = v1.DiskTarget{PersistentVolumeClaimName: disk.ClaimName(d.Name), UID: "c"}
	}
	if vm != "" {
		d.Status = disk.Lock(d, vm, "", time.Unix(0, 0))
	}
	return d
}

// Files that an untrusted VM leaves stay untrusted for all later VMs.
func TestTaint(t *testing.T) {
	t.Parallel()
	d := of(v1.DiskReady, "c", "")
	require.Empty(t, disk.Lock(d, "web", "the image x", time.Now()).Untrusted, "there are no files")
	d.Spec.PersistentVolumeClaim.VolumeMode = corev1.PersistentVolumeFilesystem
	d.Status = disk.Lock(d, "web", "the image x", time.Now())
	d.Status = disk.Unlock(d, time.Now())
	require.Empty(t, disk.Holder(d))
	d.Status = disk.Lock(d, "other", "", time.Now())
	require.Equal(t, "the image x", d.Status.Untrusted)
	require.Equal(t, "other", disk.Holder(d))
}
