package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/attachment"
	"vmop/manager/vm/objects"
)

type vmbda = v1.VirtualMachineBlockDeviceAttachment

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// export returns the ready pod of an export of the disk "data".
func export(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "vd-data", UID: "export",
		Annotations: map[string]string{objects.AnnotationVM: "web", objects.AnnotationAddress: "10.0.0.7"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion().String(), Kind: string(v1.KindVirtualDisk), Name: "data", UID: "disk",
			Controller: new(true),
		}},
	}}
	pod.Spec.NodeName = "n1"
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "export", Ready: true}}
	change(pod)
	return pod
}

func diskRef(name string) v1.AttachedDeviceRef {
	return v1.AttachedDeviceRef{Kind: v1.AttachedDisk, Name: name}
}

// The status of a pod determines the state of its export and the message.
func TestTheStateOfAnExport(t *testing.T) {
	t.Parallel()
	waits := func(reason, message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   attachment.Export // without the problem
		says   string
	}{
		"ready":       {func(*corev1.Pod) {}, attachment.Export{Ready: true}, ""},
		"just made":   {func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }, attachment.Export{}, ""},
		"the probe's": {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false }, attachment.Export{}, ""},
		"of a node that has gone": {
			func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			}, attachment.Export{}, "",
		},
		"no node": {
			func(p *corev1.Pod) {
				p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
					Message: "0/3 nodes:\nvolume node affinity conflict",
				}}}
			}, attachment.Export{}, "no node takes the pod vd-data: 0/3 nodes:",
		},
		"no image": {
			func(p *corev1.Pod) { p.Status.ContainerStatuses = waits("ImagePullBackOff", "not found") },
			attachment.Export{},
			"the image of the pod vd-data cannot be pulled: ImagePullBackOff: not found",
		},
		"being created": {
			func(p *corev1.Pod) { p.Status.ContainerStatuses = waits("ContainerCreating", "") },
			attachment.Export{},
			"",
		},
		"a disk that can't be opened": {
			func(p *corev1.Pod) {
				p.Status.ContainerStatuses = waits("CrashLoopBackOff", "back-off")
				p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
					ExitCode: 1, Reason: "Error", Message: "open /dev/disk: no such device",
				}
			}, attachment.Export{}, "the pod vd-data has failed: open /dev/disk: no such device",
		},
		"killed for memory": {
			func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0] = corev1.ContainerStatus{State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"},
				}}
			}, attachment.Export{}, "the pod vd-data has failed: OOMKilled with the code 137",
		},
		"evicted": {
			func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
				p.Status.Message = "the node was low on memory"
			}, attachment.Export{Over: true}, "the pod vd-data was ended: Evicted: the node was low on memory",
		},
		"ended without a word": {
			func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
			attachment.Export{Over: true},
			"its node has not reported why",
		},
		"on a dead node": {
			func(p *corev1.Pod) {
				p.DeletionTimestamp, p.Status.ContainerStatuses[0].Ready = &metav1.Time{Time: now}, false
			}, attachment.Export{Ending: true}, "being deleted: if it stays so, look after its node n1",
		},
		"of an earlier disk of that name": {
			func(p *corev1.Pod) { p.OwnerReferences[0].UID = "earlier" }, attachment.Export{}, "",
		},
	} {
		got := stateOf(export(c.change), "disk")
		if c.says == "" {
			require.Empty(t, got.Problem, name)
		}
		require.Contains(t, got.Problem, c.says, name)
		require.NotContains(t, got.Problem, "\n", name)
		got.Problem = ""
		c.want.Exists = true
		require.Equal(t, c.want, got, name)
	}
	gone := stateOf(export(func(*corev1.Pod) {}), "")
	require.False(t, gone.Ready, "of a disk that is gone")
}

// The state of a drive follows from the runner's report and from the machine that the report is about.
func TestTheStateOfADrive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*round)
		want   attachment.Drive
	}{
		"attached": {
			func(*round) {},
			attachment.Drive{Configured: true, State: attachment.DriveAttached},
		},
		"by another revision": {
			func(r *round) { r.drives.Revision++ },
			attachment.Drive{Configured: true, Unseen: true, State: attachment.DriveAttached},
		},
		"of the pod before": {
			func(r *round) { r.pod.UID = "next" },
			attachment.Drive{Configured: true, Unseen: true},
		},
		"no pod": {
			func(r *round) { r.pod = nil },
			attachment.Drive{Configured: true, Unseen: true},
		},
		"no runner yet": {
			func(r *round) { r.VM.Status.Runner = nil },
			attachment.Drive{Configured: true, Unseen: true},
		},
		"another disk": {
			func(r *round) { r.VM.Status.Runner.Drives[0].Name = "log" },
			attachment.Drive{Configured: true},
		},
		"no VM": {
			func(r *round) { r.VM = nil },
			attachment.Drive{Unseen: true},
		},
		"neither VM nor pod": {
			func(r *round) { r.VM, r.pod = nil, nil },
			attachment.Drive{},
		},
		"never any in the config": {
			func(r *round) { r.drives, r.VM.Status.Runner.Drives = objects.Drives{}, nil },
			attachment.Drive{},
		},
		"the pod of a VM of that name that was deleted": {
			func(r *round) {
				r.drives, r.VM.Status.Runner = objects.Drives{}, nil
				r.VM.CreationTimestamp = metav1.NewTime(now.Add(time.Minute))
			}, attachment.Drive{Unseen: true},
		},
	} {
		vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}
		vm.Status.Runner = &v1.RunnerStatus{
			PodUID: "pod", DrivesRevision: 7, Drives: []v1.RunnerDrive{{Name: "data", State: "Attached"}},
		}
		r := &round{Subject: Subject{Name: "web", VM: vm}, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			UID: "pod", CreationTimestamp: metav1.NewTime(now),
		}}}
		r.drives = objects.Drives{Revision: 7, All: []objects.AttachedDrive{{Disk: "data", Address: "10.0.0.7"}}}
		c.change(r)
		require.Equal(t, c.want, r.driveState(diskRef("data")), name)
	}
}

func someAttachment(name, disk string, created time.Time) *vmbda {
	a := &vmbda{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Generation: 3, ResourceVersion: "5",
		CreationTimestamp: metav1.NewTime(created),
	}}
	a.Spec.VirtualMachineName = "web"
	a.Spec.BlockDeviceRef = diskRef(disk)
	return a
}

// The oldest of several attachments of a disk is carried out; for equal times, the name decides.
func TestTheOldestAttachmentIsCarriedOut(t *testing.T) {
	t.Parallel()
	anImage := someAttachment("an-image", "data", now.Add(-time.Second))
	anImage.Spec.BlockDeviceRef.Kind = v1.AttachedImage
	var names []string
	for _, a := range attachmentsOf(diskRef("data"), []*vmbda{
		someAttachment("a", "data", now.Add(time.Second)), someAttachment("c", "data", now),
		someAttachment("other", "log", now), someAttachment("b", "data", now), anImage,
	}) {
		names = append(names, a.Name)
	}
	require.Equal(t, []string{"b", "c", "a"}, names)
}

// The conditions of an attachment show whether it waits for the disk, the VM or the drive, and since when.
func TestTheStatusOfAnAttachment(t *testing.T) {
	t.Parallel()
	a := someAttachment("a", "data", now)
	before := metav1.NewTime(now.Add(-time.Hour))
	a.Status.Conditions = []metav1.Condition{
		{Type: v1.AttachmentConditionVM, Status: metav1.ConditionTrue, LastTransitionTime: before},
		{Type: v1.AttachmentConditionAttached, Status: metav1.ConditionFalse, LastTransitionTime: before},
	}
	s := attachment.Situation{VMName: "web", Ref: diskRef("data"), VM: &v1.VirtualMachine{}, HasPod: true}
	is := statusOf(a, s, attachment.Plan{Phase: attachment.Attached, Reason: attachment.ReasonAttached}, now)
	require.Empty(t, is.Reason)
	require.Equal(t, "web", is.VirtualMachineName)
	require.Equal(t, int64(3), is.ObservedGeneration)
	vm := apimeta.FindStatusCondition(is.Conditions, v1.AttachmentConditionVM)
	require.Equal(t, metav1.ConditionTrue, vm.Status)
	require.Equal(t, before, vm.LastTransitionTime, "it was so before")
	attached := apimeta.FindStatusCondition(is.Conditions, v1.AttachmentConditionAttached)
	require.Equal(t, metav1.ConditionTrue, attached.Status)
	require.Equal(t, metav1.NewTime(now), attached.LastTransitionTime)
	device := apimeta.FindStatusCondition(is.Conditions, v1.AttachmentConditionDevice)
	require.Equal(t, metav1.ConditionFalse, device.Status)
	require.Equal(t, "there is no VirtualDisk data", device.Message)

	s.HasPod = false
	is = statusOf(a, s, attachment.Plan{Phase: attachment.Pending, Reason: attachment.ReasonVMStopped}, now)
	vm = apimeta.FindStatusCondition(is.Conditions, v1.AttachmentConditionVM)
	require.Equal(t, attachment.ReasonVMStopped, vm.Reason)
	require.Equal(t, metav1.NewTime(now), vm.LastTransitionTime)
	attached = apimeta.FindStatusCondition(is.Conditions, v1.AttachmentConditionAttached)
	require.Equal(t, before, attached.LastTransitionTime)
	s.VM = nil
	is = statusOf(a, s, attachment.Plan{}, now)
	vm = apimeta.FindStatusCondition(is.Conditions, v1.AttachmentConditionVM)
	require.Equal(t, attachment.ReasonVMMissing, vm.Reason)
}

// namespace is a controller's view with known VMs and unlisted disks.
type namespace struct{ pod *corev1.Pod }

var errNotListed = errors.New("the list of VirtualDisks has not been read yet")

func (n namespace) Pod(string) (*corev1.Pod, error)      { return n.pod, nil }
func (n namespace) EnqueueAny(...string)                 {}
func (n namespace) Disk(string) (*v1.VirtualDisk, error) { return nil, errNotListed }

func (n namespace) Image(v1.BlockDeviceKind, string) (*v1.VirtualDisk, error) {
	return nil, errNotListed
}

func (n namespace) Mounted(context.Context, string, string) (mounted, settled bool, err error) {
	return false, false, errNotListed
}

func (n namespace) Lock(context.Context, string, *v1.VirtualDisk) (*v1.VirtualDisk, error) {
	return nil, errNotListed
}

// While the list of disks is missing, for example after a manager's start, guests keep their drives and disks, and the
// manager writes no changes.
func TestNothingIsDetachedWhileTheDisksAreUnknown(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "vm"}}
	vm.Spec.VM.State = v1.Running
	n := namespace{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}}}
	c := New(Options{ // without a client: a write would panic
		Namespace: "vms", Settings: objects.DefaultSettings, VMs: n, Disks: n, Now: func() time.Time { return now },
	})
	config := &objects.Metadata{}
	config.Annotations = map[string]string{
		objects.AnnotationDrives: `{"revision":7,"drives":[{"disk":"data","address":"10.0.0.7"}]}`,
	}
	config.ResourceVersion = "9"
	subject := Subject{Name: "web", VM: vm, ConfigMap: config}
	drives := objects.DrivesOf(config)

	got, did := c.Attach(t.Context(), subject) // attachments aren't listed either
	require.Equal(t, drives, got.Drives)
	require.Equal(t, []string{"data"}, got.Kept)
	require.Equal(t, now.Add(unlistedRetry), did.Again)

	require.NoError(t, c.book.Listing(
		[]*vmbda{someAttachment("a", "data", now), someAttachment("b", "log", now)},
		[]*corev1.Pod{export(func(p *corev1.Pod) { p.ResourceVersion = "3" })}))
	got, did = c.Attach(t.Context(), subject)
	require.ErrorIs(t, did.Err, errNotListed)
	require.Equal(t, drives, got.Drives)
	require.Equal(t, []string{"data", "log"}, got.Kept)
}
