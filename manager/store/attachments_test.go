package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

func someAttachment(name, vm, disk string, version int) *v1.VirtualMachineBlockDeviceAttachment {
	return &v1.VirtualMachineBlockDeviceAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "vms", UID: "u-1", ResourceVersion: fmt.Sprint(version), Generation: 2,
			CreationTimestamp: metav1.NewTime(time.Unix(10, 0)), Finalizers: []string{v1.AttachmentFinalizer},
			Labels: map[string]string{"not": "kept"},
		},
		Spec: v1.VirtualMachineBlockDeviceAttachmentSpec{
			VirtualMachineName: vm,
			BlockDeviceRef:     v1.AttachedDeviceRef{Kind: v1.AttachedDeviceKind(v1.KindVirtualDisk), Name: disk},
		},
		Status: v1.VirtualMachineBlockDeviceAttachmentStatus{Phase: v1.AttachmentAttached},
	}
}

// someExport returns the pod of an export; its owner can differ from the disk with that name.
func someExport(name, vm, owner string, version int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "vms", UID: "p-1", ResourceVersion: fmt.Sprint(version),
		Labels:      map[string]string{objects.LabelName: objects.ExportAppName},
		Annotations: map[string]string{objects.AnnotationVM: vm, objects.AnnotationAddress: "10.0.0.7", "not": "kept"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion().String(), Kind: string(v1.KindVirtualDisk), Name: owner, UID: "d-1",
			Controller: new(true),
		}},
	}}
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "export"}}
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 1, Message: "the disk is busy",
	}
	return pod
}

// The store keeps what decisions need of attachments and exports, and finds both by VM and by disk.
func TestAttachmentsAreFound(t *testing.T) {
	t.Parallel()
	var changed changes
	s := NewAttachments("vms", func(vm string) { changed.record(vm, record{}) })
	require.ErrorIs(t, s.Listed(), errAttachmentsNotListed, "nothing may be decided before")
	require.NoError(t, s.Listing(
		[]*v1.VirtualMachineBlockDeviceAttachment{
			someAttachment("a", "web", "data", 3), someAttachment("b", "web", "log", 4),
			someAttachment("c", "db", "data", 5),
		},
		[]*corev1.Pod{
			someExport("vd-data", "web", "data", 6),
			someExport("vd-log", "web", "other", 7), // with the disk's name, but for another disk
		}))
	require.NoError(t, s.Listed())
	require.Equal(t, []string{"db of ", "web of ", "web of ", "web of "}, changed.since())

	all, err := s.Of("web")
	require.NoError(t, err)
	require.Len(t, all, 2)
	want := someAttachment("a", "web", "data", 3)
	want.Labels = nil
	require.Equal(t, want.ObjectMeta, func() metav1.ObjectMeta {
		m := all[0].ObjectMeta
		m.CreationTimestamp = metav1.NewTime(m.CreationTimestamp.Local())
		return m
	}())
	require.Equal(t, want.Spec, all[0].Spec)
	require.Equal(t, want.Status.Phase, all[0].Status.Phase)
	none, err := s.Of("gone")
	require.NoError(t, err)
	require.Empty(t, none)

	require.Equal(t, []string{"db", "web"}, s.UsersOf("data"))
	require.Equal(t, []string{"web"}, s.UsersOf("log"))
	require.Empty(t, s.UsersOf("dat"), "a part of a name is none")
	require.Equal(t, []string{"vd-data"}, s.Exports("web"))
	require.ElementsMatch(t, []string{"db", "web", "web"}, s.VMs())

	pod, err := s.Export("vd-data")
	require.NoError(t, err)
	whole := someExport("vd-data", "web", "data", 6)
	require.Equal(t, whole.OwnerReferences, pod.OwnerReferences)
	require.Equal(t, whole.Status, pod.Status, "all of it says why it doesn't serve")
	require.Len(t, pod.Annotations, 2)
	require.Equal(t, "10.0.0.7", pod.Annotations[objects.AnnotationAddress])
	pod, err = s.Export("vd-log")
	require.NoError(t, err)
	require.Nil(t, pod, "another's pod is no export")
}

// The result of a write is visible immediately, and older events of the watch change nothing.
func TestAttachmentsLearn(t *testing.T) {
	t.Parallel()
	var changed changes
	s := NewAttachments("vms", func(vm string) { changed.record(vm, record{}) })
	require.NoError(t, s.Listing([]*v1.VirtualMachineBlockDeviceAttachment{someAttachment("a", "web", "data", 3)}, nil))
	changed.since()
	next := someAttachment("a", "web", "data", 5)
	next.Finalizers = nil
	require.NoError(t, s.Learn(next))
	require.NoError(t, s.attachments.Add(someAttachment("a", "web", "data", 4)))
	all, err := s.Of("web")
	require.NoError(t, err)
	require.Empty(t, all[0].Finalizers)
	require.NoError(t, s.Learn(someExport("vd-data", "web", "data", 6)))
	require.Equal(t, []string{"vd-data"}, s.Exports("web"))
	require.Equal(t, []string{"web of ", "web of "}, changed.since())
	require.NoError(t, s.pods.Delete(someExport("vd-data", "web", "data", 7)))
	require.NoError(t, s.attachments.Delete(someAttachment("a", "web", "data", 8)))
	require.Empty(t, s.VMs())
	require.Empty(t, s.UsersOf("data"))
	require.Equal(t, []string{"web of ", "web of "}, changed.since(), "and when its last export is gone")
	require.ErrorContains(t, s.Learn(&corev1.Secret{}), "there is no collection of its kind")
}
