package disk_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// exporting returns the situation of a blank, ready disk with an export request.
func exporting() disk.Situation {
	s := importing()
	s.Disk.Spec.DataSource, s.Secret = nil, disk.Secret{}
	s.Disk.Status.Phase, s.Disk.Status.Target.UID = v1.DiskReady, "c"
	s.Disk.Annotations = map[string]string{v1.AnnotationExport: s.Now.Add(time.Minute).Format(time.RFC3339Nano)}
	return s
}

// has makes the status show a pod that exports the disk for the current request.
func has(s *disk.Situation, uid types.UID) {
	s.Disk.Status.Export = &v1.DiskExport{
		Request: s.Disk.Annotations[v1.AnnotationExport], Pod: uid, Phase: v1.DiskExportPending,
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	withdraw := func(s *disk.Situation) { s.Disk.Annotations = nil }
	for name, row := range map[string]struct {
		change func(*disk.Situation)
		step   disk.Step
		phase  v1.DiskExportPhase // "" means no export status
		reason string
		pod    types.UID // recorded in the status
	}{
		"begins":      {func(*disk.Situation) {}, disk.MakePod, v1.DiskExportPending, disk.ReasonStarting, ""},
		"isn't asked": {withdraw, disk.Nothing, "", "", ""},
		"a volume that is made for the first pod": {func(s *disk.Situation) {
			s.Disk.Status.Phase, s.Claim.Status.Phase = v1.DiskWaiting, corev1.ClaimPending
		}, disk.MakePod, v1.DiskExportPending, disk.ReasonStarting, ""},
		"not made": {func(s *disk.Situation) {
			s.Disk.Status.Phase = v1.DiskPending
		}, disk.Nothing, v1.DiskExportPending, disk.ReasonSourceNotReady, ""},
		"not whole": {func(s *disk.Situation) {
			s.Disk.Spec.DataSource = importing().Disk.Spec.DataSource
		}, disk.Nothing, v1.DiskExportPending, disk.ReasonSourceNotReady, ""},
		"in use": {func(s *disk.Situation) {
			s.Disk.Status.AttachedToVirtualMachines = []v1.AttachedVirtualMachine{{Name: "web"}}
		}, disk.Nothing, v1.DiskExportPending, disk.ReasonSourceInUse, ""},
		"being deleted": {func(s *disk.Situation) {
			s.Disk.DeletionTimestamp = new(metav1.Unix(5, 0))
		}, disk.Nothing, v1.DiskExportPending, disk.ReasonDeletion, ""},
		"too late": {func(s *disk.Situation) {
			s.Now = s.Now.Add(time.Minute)
		}, disk.Forget, v1.DiskExportPending, disk.ReasonStarting, ""},
		"no time": {func(s *disk.Situation) {
			s.Disk.Annotations[v1.AnnotationExport] = "please"
		}, disk.Forget, v1.DiskExportPending, disk.ReasonStarting, ""},
		"refused": {func(s *disk.Situation) {
			s.NoExporter = &disk.Refusal{Reason: disk.ReasonQuota}
		}, disk.MakePod, v1.DiskExportPending, disk.ReasonQuota, ""},
		"another's pod": {func(s *disk.Situation) {
			s.Exporter = pod("p", 0, corev1.PodRunning, "")
			s.Exporter.OwnerReferences = nil
		}, disk.Nothing, v1.DiskExportPending, disk.ReasonPodTaken, ""},
		"a pod that isn't in the status": {func(s *disk.Situation) {
			s.Exporter = pod("p", 1, corev1.PodPending, "")
		}, disk.Nothing, v1.DiskExportPending, disk.ReasonStarting, "p"},
		"such a pod, and a VM has the disk": {func(s *disk.Situation) {
			s.Exporter = pod("p", 1, corev1.PodPending, "")
			s.Disk.Status.AttachedToVirtualMachines = []v1.AttachedVirtualMachine{{Name: "web"}}
		}, disk.RemovePod, v1.DiskExportPending, disk.ReasonSourceInUse, ""},
		"such a pod, too late": {func(s *disk.Situation) {
			s.Exporter = pod("p", 1, corev1.PodPending, "")
			s.Now = s.Now.Add(time.Minute)
		}, disk.RemovePod, v1.DiskExportPending, disk.ReasonStarting, ""},
		"a pod that is in the status": {func(s *disk.Situation) {
			s.Exporter = pod("p", 1, corev1.PodPending, "")
			has(s, "p")
		}, disk.StartPod, v1.DiskExportPending, disk.ReasonStarting, "p"},
		"another pod is in the status": {func(s *disk.Situation) {
			s.Exporter = pod("q", 1, corev1.PodPending, "")
			has(s, "p")
		}, disk.Confirm, v1.DiskExportPending, disk.ReasonStarting, "p"},
		"runs": {func(s *disk.Situation) {
			s.Exporter = pod("p", 0, corev1.PodRunning, "")
			has(s, "p")
			s.Now = s.Now.Add(time.Hour)
		}, disk.Nothing, v1.DiskExportReady, disk.ReasonFetchable, "p"},
		"is withdrawn": {func(s *disk.Situation) {
			s.Exporter = pod("p", 0, corev1.PodRunning, "")
			has(s, "p")
			withdraw(s)
		}, disk.RemovePod, v1.DiskExportPending, disk.ReasonEnding, "p"},
		"is withdrawn before it has begun": {func(s *disk.Situation) {
			s.Exporter = pod("p", 1, corev1.PodPending, "")
			has(s, "p")
			withdraw(s)
		}, disk.RemovePod, v1.DiskExportPending, disk.ReasonEnding, "p"},
		"ended": {func(s *disk.Situation) {
			s.Exporter = pod("p", 0, corev1.PodSucceeded, "")
			has(s, "p")
		}, disk.Nothing, v1.DiskExportEnded, disk.ReasonNotFetched, ""},
		"failed": {func(s *disk.Situation) {
			s.Exporter = pod("p", 0, corev1.PodFailed, `{"reason": "SourceNotFound", "message": "no file"}`)
			has(s, "p")
		}, disk.Nothing, v1.DiskExportEnded, "SourceNotFound", ""},
		"the pod may be gone": {func(s *disk.Situation) {
			has(s, "p")
		}, disk.Confirm, v1.DiskExportPending, disk.ReasonEnding, "p"},
		"the pod is gone": {func(s *disk.Situation) {
			has(s, "p")
			s.ExporterGone = true
		}, disk.Nothing, v1.DiskExportEnded, disk.ReasonPodGone, ""},
		"withdrawn, and gone": {func(s *disk.Situation) {
			has(s, "p")
			withdraw(s)
			s.ExporterGone = true
		}, disk.Nothing, "", "", ""},
		"is over": {func(s *disk.Situation) {
			s.Exporter = pod("p", 0, corev1.PodSucceeded, "")
			has(s, "")
			s.Disk.Status.Export.Phase = v1.DiskExportEnded
		}, disk.RemovePod, v1.DiskExportEnded, "", ""},
		"is over, and its pod is gone": {func(s *disk.Situation) {
			has(s, "")
			s.Disk.Status.Export.Phase = v1.DiskExportEnded
		}, disk.Nothing, v1.DiskExportEnded, "", ""},
		"another time": {func(s *disk.Situation) {
			has(s, "")
			s.Disk.Status.Export.Phase, s.Disk.Status.Export.Request = v1.DiskExportEnded, "before"
		}, disk.MakePod, v1.DiskExportPending, disk.ReasonStarting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := exporting()
			row.change(&s)
			require.Equal(t, row.step, disk.NextOfExport(s))
			is := disk.StatusOf(s).Export
			if row.phase == "" {
				require.Nil(t, is)
				return
			}
			require.Equal(t, row.phase, is.Phase)
			require.Equal(t, row.reason, is.Reason)
			require.Equal(t, row.pod, is.Pod)
		})
	}
}

// No VM gets a disk while an export pod may read it.
func TestExportKeepsVMsAway(t *testing.T) {
	t.Parallel()
	s := exporting()
	has(&s, "p")
	answer, reason, message := disk.ForVM("vm", "root", s.Disk)
	require.Equal(t, disk.Wait, answer)
	require.Equal(t, disk.ReasonCopied, reason)
	require.Equal(t, "the VirtualDisk root is being exported: the VM starts when that is done", message)
	s.Disk.Status.Export.Pod = ""
	answer, _, _ = disk.ForVM("vm", "root", s.Disk)
	require.Equal(t, disk.Take, answer)
}

// The pod has no token, and can't write to the disk.
func TestExportPod(t *testing.T) {
	t.Parallel()
	p := disk.ExportPod(exporting().Disk, worker())
	require.Equal(t, "vd-root-export", p.Name)
	require.Equal(t, []string{
		"export", "--log-format=json", "--termination-log=/dev/termination-log", "--socket=/scratch/upload.sock",
		"--tls=/etc/vmimport/tls", "/dev/source",
	}, p.Spec.Containers[0].Args)
	require.True(t, p.Spec.Volumes[2].PersistentVolumeClaim.ReadOnly)
	files := p.Spec.Volumes[1].Projected.Sources
	require.Equal(t, "vd-root-export-tls", files[0].Secret.Name)
	require.Equal(t, "authorities", files[1].ConfigMap.Name)
	require.False(t, *p.Spec.AutomountServiceAccountToken)
	require.Len(t, p.Spec.SchedulingGates, 1)
	p = disk.ExportPod(disk.AsDisk(image("qcow2")), worker())
	require.Equal(t, "vi-debian-export", p.Name)
	require.Contains(t, p.Spec.Containers[0].Args, "--length=3221225472")
}
