package controller

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/diskimage/nbd"
	"vmop/manager/attachment"
	diskof "vmop/manager/disk"
	"vmop/manager/vm/objects"
	"vmop/test/tier"
)

type vmbda = v1.VirtualMachineBlockDeviceAttachment

// attach creates an attachment of a disk to a VM.
func (w *world) attach(name, vm, disk string) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineBlockDeviceAttachment, "+
		"metadata: {name: %s}, "+
		"spec: {virtualMachineName: %s, blockDeviceRef: {kind: VirtualDisk, name: %s}}}", name, vm, disk))
}

// attachmentIs waits until an attachment has a phase, a reason, and a message that contains a text.
func (w *world) attachmentIs(name string, phase v1.AttachmentPhase, reason, says string) *vmbda {
	w.t.Helper()
	return eventually(w, name, &vmbda{}, fmt.Sprint(phase, " ", reason, " ", says), func(a *vmbda) bool {
		attached := meta.IsStatusConditionTrue(a.Status.Conditions, v1.AttachmentConditionAttached)
		return a.Status.Phase == phase && a.Status.Reason == reason && strings.Contains(a.Status.Message, says) &&
			attached == (phase == v1.AttachmentAttached)
	})
}

// serve plays the kubelet of an export and makes it ready.
func (w *world) serve(disk string) *corev1.Pod {
	w.t.Helper()
	name := objects.ExportName(disk)
	pod := eventually(w, name, &corev1.Pod{}, "there is an export", func(p *corev1.Pod) bool {
		return p.DeletionTimestamp == nil
	})
	w.ready(pod)
	return pod
}

func (w *world) ready(pod *corev1.Pod) {
	patch := `{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": ` +
		`[{"name": "export", "ready": true, "image": "x", "imageID": "x", "restartCount": 0}]}}`
	err := w.client.Status().Patch(w.playing(), pod.DeepCopy(), client.RawPatch(
		apitypes.StrategicMergePatchType, []byte(patch)))
	require.NoError(w.t, client.IgnoreNotFound(err))
}

// configured waits until a VM's configuration has exactly the drives of these disks, and returns the drives.
func (w *world) configured(vm string, disks ...string) objects.Drives {
	w.t.Helper()
	configMap := eventually(w, vm, &corev1.ConfigMap{}, fmt.Sprint("drives ", disks), func(c *corev1.ConfigMap) bool {
		var have []string
		for _, a := range drivesIn(c).All {
			have = append(have, a.Disk)
		}
		return fmt.Sprint(have) == fmt.Sprint(disks)
	})
	for _, disk := range disks {
		require.Contains(w.t, configMap.Data[objects.ConfigKey], "export: "+objects.ExportName(disk))
	}
	if len(disks) == 0 {
		require.NotContains(w.t, configMap.Data[objects.ConfigKey], "export: ")
	}
	return drivesIn(configMap)
}

func drivesIn(c *corev1.ConfigMap) objects.Drives {
	return objects.DrivesOf(&objects.Metadata{ObjectMeta: c.ObjectMeta})
}

// reports plays a VM's runner that reports drives for a revision; states alternates disks and their states.
func (w *world) reports(vm string, pod *corev1.Pod, revision int64, states ...string) {
	w.t.Helper()
	w.drives = func(string) (all []v1.RunnerDrive, _ int64) {
		for i := 0; i < len(states); i += 2 {
			all = append(all, v1.RunnerDrive{Name: states[i], State: states[i+1], Message: "so it is"})
		}
		return all, revision
	}
	w.say(vm, pod, stateBooted, nil)
}

// free waits until an export is completely removed and no VM has the disk.
func (w *world) free(disk string) {
	w.t.Helper()
	for _, object := range []client.Object{&corev1.Pod{}, &corev1.Service{}, &corev1.Secret{}} {
		absent(w, objects.ExportName(disk), object)
	}
	w.diskOf(disk, "")
}

// Attaching and detaching a disk waits for the expected party and creates the expected objects at each step.
func TestAnAttachment(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class := w.storage(false, true, "1Gi")

	w.attach("att", "web", "data")
	w.attachmentIs("att", v1.AttachmentPending, attachment.ReasonVMMissing, "there is no VM web")
	w.vm("web", stopped)
	w.attachmentIs("att", v1.AttachmentPending, attachment.ReasonVMStopped, "the VM web is not running")
	w.edit("web", running)
	pod := w.boot("web")
	a := w.attachmentIs("att", v1.AttachmentPending, diskof.ReasonMissing,
		"there is no VirtualDisk data: it is attached when it is created")
	require.Empty(t, a.Finalizers, "it has nothing yet")
	w.blankDisk("data", class, "1Gi")
	a = w.attachmentIs("att", v1.AttachmentInProgress, attachment.ReasonExporting, "the disk's export is being started")
	require.Equal(t, []string{v1.AttachmentFinalizer}, a.Finalizers)
	d := w.diskOf("data", "web")

	export := w.serve("data")
	require.Equal(t, "vd-data", export.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	drives := w.configured("web", "data")
	service, _ := get(w, "vd-data", &corev1.Service{})
	require.Equal(t, []objects.AttachedDrive{{Disk: "data", Address: service.Spec.ClusterIP}}, drives.All)
	w.hasCertificates("web", export)
	for _, object := range []client.Object{export, service} {
		require.Equal(t, d.UID, object.GetOwnerReferences()[0].UID, "it doesn't go with the attachment or the VM")
	}
	eventually(w, pod.Name, &corev1.Pod{}, "the kubelet reads it again", func(p *corev1.Pod) bool {
		configMap, _ := get(w, "web", &corev1.ConfigMap{})
		return p.Annotations[objects.AnnotationConfigVersion] == configMap.ResourceVersion
	})
	w.reports("web", pod, drives.Revision, "data", "Attaching")
	w.attachmentIs("att", v1.AttachmentInProgress, attachment.ReasonRequested, "the runner attaches the disk: so it is")
	w.reports("web", pod, drives.Revision, "data", "Attached")
	w.attachmentIs("att", v1.AttachmentAttached, "", "")
	require.Regexp(t, `^NAME +PHASE +VIRTUAL MACHINE NAME +AGE\natt +Attached +web +\d+s\n$`, w.Kubectl("get", "vmbda"))
	eventually(w, "web", &v1.VirtualMachine{}, "it says so", func(vm *v1.VirtualMachine) bool {
		return fmt.Sprint(vm.Status.BlockDeviceRefs) == fmt.Sprint([]v1.BlockDeviceStatusRef{{
			Kind: v1.KindVirtualDisk, Name: "data", Size: "1Gi", Attached: true, Serial: "data", Hotplugged: true,
			VirtualMachineBlockDeviceAttachmentName: "att",
		}})
	})

	// The export is killed, and its replacement gets the same address.
	w.remove(export)
	w.attachmentIs("att", v1.AttachmentInProgress, attachment.ReasonExporting,
		"waiting for the disk's export, which is being restarted")
	again := w.serve("data")
	require.NotEqual(t, export.UID, again.UID)
	require.Equal(t, service.Spec.ClusterIP, again.Annotations[objects.AnnotationAddress])
	w.attachmentIs("att", v1.AttachmentAttached, "", "")

	// The disk can't be attached to another VM, or twice.
	w.attach("twice", "web", "data")
	w.attachmentIs("twice", v1.AttachmentFailed, attachment.ReasonConflict,
		"the attachment att is also for the VirtualDisk data")
	w.vm("other", withDisks("data"))
	w.attach("other", "other", "data")
	w.attachmentIs("other", v1.AttachmentFailed, attachment.ReasonConflict, "by its definition: delete the attachment")
	w.phase("other", v1.PhasePending, diskof.ReasonInUse)
	w.vm("third", func(*v1.VirtualMachine) {})
	w.boot("third")
	w.attach("third", "third", "data")
	w.attachmentIs("third", v1.AttachmentPending, diskof.ReasonInUse,
		"attached to the VM web: it is attached to this VM when the "+
			"other VM has detached it")
	w.Kubectl("delete", "vmbda", "twice", "other", "third", "--timeout=20s")
	require.NoError(t, w.client.Delete(t.Context(), machine(w.Name, "other")))
}

// hasCertificates checks that both sides of an export have the certificates for QEMU but not the authority's key.
func (w *world) hasCertificates(vm string, export *corev1.Pod) {
	w.t.Helper()
	own, is := get(w, objects.DiskTLSName(vm), &corev1.Secret{})
	require.True(w.t, is)
	server, is := get(w, export.Name, &corev1.Secret{})
	require.True(w.t, is)
	require.Equal(w.t, own.Data[nbd.CAFile], server.Data[nbd.CAFile])
	require.Len(w.t, server.Data, 3)
	pod, _ := get(w, objects.PodName(vm, 0), &corev1.Pod{})
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			var keys []string
			for _, item := range v.Secret.Items {
				keys = append(keys, item.Key)
			}
			require.Equal(w.t,
				[]string{nbd.CAFile, nbd.ClientCertificateFile, nbd.ClientKeyFile}, keys)
			require.Equal(w.t, own.Name, v.Secret.SecretName)
			return
		}
	}
	require.Fail(w.t, "the pod has no folder for certificates")
}

// plays plays the kubelet of exports and the runner's part of a VM's drives.
func (w *world) plays(vm string) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	attached := map[string]bool{}
	w.drives = func(string) (all []v1.RunnerDrive, revision int64) {
		mu.Lock()
		defer mu.Unlock()
		configMap := &corev1.ConfigMap{}
		if w.client.Get(w.playing(), client.ObjectKey{Namespace: w.Name, Name: vm}, configMap) != nil {
			return nil, 0
		}
		drives := drivesIn(configMap)
		for _, a := range drives.All {
			export := &corev1.Pod{}
			_ = w.client.Get(w.playing(), client.ObjectKey{Namespace: w.Name, Name: objects.ExportName(a.Disk)}, export)
			state := "Attaching"
			if len(export.Status.ContainerStatuses) > 0 || attached[a.Disk] {
				attached[a.Disk], state = true, "Attached"
			}
			all = append(all, v1.RunnerDrive{Name: a.Disk, State: state})
		}
		return all, drives.Revision
	}
	step := func() {
		var pods corev1.PodList
		if w.client.List(w.playing(), &pods, client.InNamespace(w.Name),
			client.MatchingLabels{objects.LabelName: objects.ExportAppName}) != nil {
			return
		}
		for i := range pods.Items {
			if len(pods.Items[i].Status.ContainerStatuses) == 0 {
				w.ready(&pods.Items[i])
			}
		}
		of, pod := &v1.VirtualMachine{}, &corev1.Pod{}
		if w.client.Get(w.playing(), client.ObjectKey{Namespace: w.Name, Name: vm}, of) != nil ||
			w.client.Get(w.playing(), client.ObjectKey{Namespace: w.Name, Name: objects.PodName(vm, 0)}, pod) != nil {
			return
		}
		all, revision := w.drives(vm)
		said := of.Status.Runner
		if said != nil && (said.DrivesRevision != revision || fmt.Sprint(said.Drives) != fmt.Sprint(all)) {
			w.say(vm, pod, stateBooted, nil)
		}
	}
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(tick):
				step()
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// After a manager is killed at any write, the next manager completes the attachment and detachment of the disk.
func TestFault33TheManagerIsKilledWhileADiskIsAttached(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	want, writes := attachedUntil(t, 0, false)
	require.Greater(t, writes, 14)
	for at := range writes {
		t.Run(fmt.Sprintf("write %d", at+1), func(t *testing.T) {
			t.Parallel()
			got, _ := attachedUntil(t, at+1, at%2 == 0)
			require.Equal(t, want, got)
		})
	}
}

// attachedUntil attaches and detaches a disk with several managers, kills the first one at the given write, and returns
// the outcome.
func attachedUntil(t *testing.T, at int, after bool) (string, int) {
	t.Helper()
	w := newWorld(t)
	w.earlier = at%4 > 1
	w.blankDisk("data", w.storage(false, true, "1Gi"), "1Gi")
	via := cutWire(0, after)
	via.only = `/virtualmachineblockdeviceattachments/|/secrets|/services/?|/pods|/configmaps/web|/virtualdisks/`
	managers := w.relay(via)
	defer managers.end()
	w.diskIs("data", v1.DiskReady, "")
	w.vm("web")
	pod := w.boot("web")
	defer w.plays("web")()
	via.mu.Lock()
	began := len(via.writes)
	if at > 0 {
		via.cutAt = began + at
	}
	via.mu.Unlock()
	w.attach("att", "web", "data")
	managers.until(func() bool {
		a, _ := get(w, "att", &vmbda{})
		return a.Status.Phase == v1.AttachmentAttached
	})
	require.Len(t, w.configured("web", "data").All, 1)
	w.Kubectl("delete", "vmbda", "att", "--wait=false")
	managers.until(func() bool {
		_, is := get(w, "att", &vmbda{})
		d, _ := get(w, "data", &v1.VirtualDisk{})
		return !is && diskof.Holder(d) == ""
	})
	w.free("data")
	w.configured("web")
	same, _ := get(w, pod.Name, &corev1.Pod{})
	require.Equal(t, pod.UID, same.UID)
	writes := via.written()[began:]
	return fmt.Sprint(w.leftOfExports()), len(writes)
}

// leftOfExports returns the names of objects with an export's label.
func (w *world) leftOfExports() (names []string) {
	w.t.Helper()
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.ServiceList{}, &corev1.SecretList{}} {
		require.NoError(w.t, w.client.List(w.t.Context(), list, client.InNamespace(w.Name),
			client.MatchingLabels{objects.LabelName: objects.ExportAppName}))
		require.NoError(w.t, meta.EachListItem(list, func(o runtime.Object) error {
			names = append(names, o.(client.Object).GetName())
			return nil
		}))
	}
	return names
}
