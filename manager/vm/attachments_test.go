package vm

import (
	"fmt"
	"regexp"
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
	"vmop/manager/attachment"
	diskof "vmop/manager/disk"
	"vmop/manager/objects"
	"vmop/nbdexport"
	"vmop/test/tier"
	"vmop/test/wait"
)

type vmbda = v1.VirtualMachineBlockDeviceAttachment

// attach makes an attachment of a disk to a VM.
func (w *world) attach(name, vm, disk string) {
	w.t.Helper()
	w.attachKind(name, vm, string(v1.KindVirtualDisk), disk)
}

func (w *world) attachKind(name, vm, kind, device string) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineBlockDeviceAttachment, "+
		"metadata: {name: %s}, "+
		"spec: {virtualMachineName: %s, blockDeviceRef: {kind: %s, name: %s}}}", name, vm, kind, device))
}

// attachmentIs waits until an attachment has a phase for a reason, and says so.
func (w *world) attachmentIs(name string, phase v1.AttachmentPhase, reason, says string) *vmbda {
	w.t.Helper()
	return eventually(w, name, &vmbda{}, fmt.Sprint(phase, " ", reason, " ", says), func(a *vmbda) bool {
		attached := meta.IsStatusConditionTrue(a.Status.Conditions, v1.AttachmentConditionAttached)
		return a.Status.Phase == phase && a.Status.Reason == reason && strings.Contains(a.Status.Message, says) &&
			attached == (phase == v1.AttachmentAttached)
	})
}

// noAttachment waits until an attachment is gone.
func (w *world) noAttachment(name string) {
	w.t.Helper()
	wait.Until(w.t, func() bool {
		_, is := get(w, name, &vmbda{})
		return !is
	}, name)
}

// serve is the kubelet of an export, which is ready.
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

// configured returns the drives of attached disks in a VM's configuration, which it waits for.
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

// reports makes the runner of a VM report drives by a revision: disks and their states.
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

// free waits until nothing is left of an export, and no VM has the disk.
func (w *world) free(disk string) {
	w.t.Helper()
	for _, object := range []client.Object{&corev1.Pod{}, &corev1.Service{}, &corev1.Secret{}} {
		wait.Until(w.t, func() bool {
			_, is := get(w, objects.ExportName(disk), object)
			return !is
		})
	}
	w.diskOf(disk, "")
}

// A disk is attached and detached: what is waited for, and what there is at each step.
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

	// Its export is killed: another one gets the same address.
	w.remove(export)
	w.attachmentIs("att", v1.AttachmentInProgress, attachment.ReasonExporting,
		"waiting for the disk's export, which is started again")
	again := w.serve("data")
	require.NotEqual(t, export.UID, again.UID)
	require.Equal(t, service.Spec.ClusterIP, again.Annotations[objects.AnnotationAddress])
	w.attachmentIs("att", v1.AttachmentAttached, "", "")

	// Neither for another VM, nor twice.
	w.attach("twice", "web", "data")
	w.attachmentIs("twice", v1.AttachmentFailed, attachment.ReasonConflict,
		"the attachment att is for the VirtualDisk data, too")
	w.vm("other", withDisks("data"))
	w.attach("other", "other", "data")
	w.attachmentIs("other", v1.AttachmentFailed, attachment.ReasonConflict, "by its definition: delete the attachment")
	w.phase("other", v1.PhasePending, diskof.ReasonInUse)
	w.vm("third", func(*v1.VirtualMachine) {})
	w.boot("third")
	w.attach("third", "third", "data")
	w.attachmentIs("third", v1.AttachmentPending, diskof.ReasonInUse,
		"attached to the VM web: it is attached to this VM when the "+
			"other one has left it")
	w.Kubectl("delete", "vmbda", "twice", "other", "third", "--timeout=20s")
	require.NoError(t, w.client.Delete(t.Context(), machine(w.Name, "other")))
}

// hasCertificates checks that both sides of an export have what QEMU wants, and none the key
// of the authority.
func (w *world) hasCertificates(vm string, export *corev1.Pod) {
	w.t.Helper()
	own, is := get(w, objects.DiskTLSName(vm), &corev1.Secret{})
	require.True(w.t, is)
	server, is := get(w, export.Name, &corev1.Secret{})
	require.True(w.t, is)
	require.Equal(w.t, own.Data[nbdexport.CAFile], server.Data[nbdexport.CAFile])
	require.Len(w.t, server.Data, 3)
	pod, _ := get(w, objects.PodName(vm, 0), &corev1.Pod{})
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			var keys []string
			for _, item := range v.Secret.Items {
				keys = append(keys, item.Key)
			}
			require.Equal(w.t,
				[]string{nbdexport.CAFile, nbdexport.ClientCertificateFile, nbdexport.ClientKeyFile}, keys)
			require.Equal(w.t, own.Name, v.Secret.SecretName)
			return
		}
	}
	require.Fail(w.t, "the pod has no folder for certificates")
}

// An export that doesn't start: what it waits for is said, and the attachment can be deleted.
func TestADiskThatIsNotServed(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.blankDisk("data", w.storage(false, true, "1Gi"), "1Gi")
	w.vm("web")
	w.boot("web")
	w.attach("att", "web", "data")
	export := eventually(w, "vd-data", &corev1.Pod{}, "is there", func(*corev1.Pod) bool { return true })
	patch := `{"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", ` +
		`"message": "0/3 nodes: too many disks"}]}}`
	require.NoError(t, w.client.Status().Patch(w.playing(), export, client.RawPatch(
		apitypes.StrategicMergePatchType, []byte(patch))))
	w.attachmentIs("att", v1.AttachmentInProgress, attachment.ReasonExporting,
		"the disk's export is being started: no node takes the pod vd-data: 0/3 nodes: too many disks")
	w.Kubectl("delete", "vmbda", "att", "--wait=false")
	w.noAttachment("att")
	w.free("data")
}

// plugged makes a VM with a disk that its guest has.
func (w *world) plugged(vm, disk string) *corev1.Pod {
	w.t.Helper()
	w.blankDisk(disk, w.storage(false, true, "1Gi"), "1Gi")
	w.vm(vm)
	pod := w.boot(vm)
	w.attach("att", vm, disk)
	w.serve(disk)
	w.reports(vm, pod, w.configured(vm, disk).Revision, disk, "Attached")
	w.attachmentIs("att", v1.AttachmentAttached, "", "")
	return pod
}

// A disk is detached only while it is served, and its export ends when the guest has let go of it.
func TestADiskIsDetached(t *testing.T) {
	t.Parallel()
	w := begin(t)
	pod := w.plugged("web", "data")
	export, _ := get(w, "vd-data", &corev1.Pod{})
	w.remove(export)
	w.attachmentIs("att", v1.AttachmentInProgress, attachment.ReasonExporting, "started again")
	w.Kubectl("delete", "vmbda", "att", "--wait=false")
	w.attachmentIs("att", v1.AttachmentTerminating, attachment.ReasonDetaching,
		"waiting for the disk's export, which is started again")
	before := w.configured("web", "data")
	w.serve("data")
	drives := w.configured("web")
	require.Greater(t, drives.Revision, before.Revision)
	w.attachmentIs("att", v1.AttachmentTerminating, attachment.ReasonDetaching, "the runner detaches the disk")
	w.reports("web", pod, before.Revision) // by the configuration before this one: it says nothing
	w.reports("web", pod, drives.Revision, "data", "Detaching")
	w.attachmentIs("att", v1.AttachmentTerminating, attachment.ReasonDetaching,
		"waiting until the guest lets go of the disk")
	_, is := get(w, "vd-data", &corev1.Pod{})
	require.True(t, is, "it is served as long as the guest has it")
	w.reports("web", pod, drives.Revision, "data", "Failed")
	w.attachmentIs("att", v1.AttachmentTerminating, attachment.ReasonDetaching,
		"the guest still has the disk: so it is")
	w.reports("web", pod, drives.Revision)
	w.noAttachment("att")
	w.free("data")

	// And attached again, which the runner can't do.
	w.attach("again", "web", "data")
	w.serve("data")
	drives = w.configured("web", "data")
	w.reports("web", pod, drives.Revision, "data", "Failed")
	w.attachmentIs("again", v1.AttachmentFailed, attachment.ReasonNotPlugged, "so it is")
	w.reports("web", pod, drives.Revision)
	w.attachmentIs("again", v1.AttachmentFailed, attachment.ReasonNotPlugged, "hotplug.disks")
}

// What a user removes the finalizer of is detached in the same way: the disk isn't free before
// the guest has let go of it.
func TestAnAttachmentWithoutItsFinalizer(t *testing.T) {
	t.Parallel()
	w := begin(t)
	pod := w.plugged("web", "data")
	w.Kubectl("patch", "vmbda", "att", "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	w.Kubectl("delete", "vmbda", "att")
	drives := w.configured("web")
	w.diskOf("data", "web")
	w.reports("web", pod, drives.Revision, "data", "Detaching")
	_, is := get(w, "vd-data", &corev1.Pod{})
	require.True(t, is)
	w.reports("web", pod, drives.Revision)
	w.free("data")
}

// A VM that is restarted gets its disk again, by an export. What has been added to its definition
// meanwhile is mounted then.
func TestAnAttachmentOutlivesARestart(t *testing.T) {
	t.Parallel()
	w := begin(t)
	pod := w.plugged("web", "data")
	require.NoError(t, w.client.Delete(t.Context(), pod))
	w.gone("web", pod)
	second := w.pod("web")
	require.NotEqual(t, pod.UID, second.UID)
	w.drives = nil
	pod = w.boot("web")
	w.serve("data")
	drives := w.configured("web", "data")
	w.reports("web", pod, drives.Revision, "data", "Attached")
	w.attachmentIs("att", v1.AttachmentAttached, "", "")

	// The definition names it, too: the configuration is still written, and the pod gets it later.
	w.edit("web", func(vm *v1.VirtualMachine) {
		withDisks("data")(vm)
		vm.Spec.VM.CurrentCPUs = new(int32(1))
	})
	configMap := eventually(w, "web", &corev1.ConfigMap{}, "is written", func(c *corev1.ConfigMap) bool {
		return strings.Contains(c.Data[objects.ConfigKey], "currentCpus: 1")
	})
	require.NotContains(t, configMap.Data[objects.ConfigKey], "/dev/data-vd")
	require.NotContains(t, mountedBy(w, "web"), "vd-data")
	vm := eventually(w, "web", &v1.VirtualMachine{}, "says why", func(vm *v1.VirtualMachine) bool {
		c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled)
		return c != nil && c.Reason == diskof.ReasonInUse
	})
	require.Contains(t, meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled).Message,
		"the pod has it from the next start")
	require.NoError(t, w.client.Delete(t.Context(), pod))
	w.gone("web", pod)
	w.drives = nil
	wait.Until(t, func() bool { return strings.Contains(mountedBy(w, "web"), "vd-data") })
	_, exported := get(w, "vd-data", &corev1.Pod{})
	require.False(t, exported, "not in two ways")
	w.reports("web", w.boot("web"), w.configured("web").Revision)
	w.attachmentIs("att", v1.AttachmentPending, attachment.ReasonConflict, "mounts the claim")
	w.Kubectl("delete", "vmbda", "att", "--timeout=20s")
}

// mountedBy returns the claims in a VM's pod, if it isn't gated: a gated one is never started.
func mountedBy(w *world, vm string) (claims string) {
	pod, _ := get(w, objects.PodName(vm, 0), &corev1.Pod{})
	if len(pod.Spec.SchedulingGates) > 0 {
		return ""
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims += v.PersistentVolumeClaim.ClaimName + " "
		}
	}
	return claims
}

// A VM that is deleted keeps its disk as long as its pod, which ends later.
func TestAVMWithAnAttachmentIsDeleted(t *testing.T) {
	t.Parallel()
	w := begin(t)
	pod := w.plugged("web", "data")
	require.NoError(t, w.client.Delete(t.Context(), machine(w.Name, "web")))
	eventually(w, pod.Name, &corev1.Pod{}, "ends", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	w.diskOf("data", "web")
	_, is := get(w, "vd-data", &corev1.Pod{})
	require.True(t, is, "the guest is shutting down, and writes")
	w.remove(pod)
	w.free("data")
	w.attachmentIs("att", v1.AttachmentPending, attachment.ReasonVMMissing, "there is no VM web")
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

// A manager that is killed at any write is followed by one that attaches the disk, and detaches it.
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

// attachedUntil attaches and detaches a disk by managers of which the first is killed at one of the
// writes that it takes, and returns what came of it.
func attachedUntil(t *testing.T, at int, after bool) (string, int) {
	t.Helper()
	w := newWorld(t)
	w.earlier = at%4 > 1
	w.blankDisk("data", w.storage(false, true, "1Gi"), "1Gi")
	via := cutWire(0, after)
	via.only = `/virtualmachineblockdeviceattachments/|/secrets|/services/?|/pods|/configmaps/web|/virtualdisks/`
	end := w.manage(via)
	defer func() { end() }()
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
	replaced := false
	until := func(is func() bool) {
		t.Helper()
		wait.Until(t, func() bool {
			select {
			case <-via.cut:
				if !replaced {
					replaced = true
					end()
					end = w.manage(nil)
				}
			default:
			}
			return is()
		})
	}
	w.attach("att", "web", "data")
	until(func() bool {
		a, _ := get(w, "att", &vmbda{})
		return a.Status.Phase == v1.AttachmentAttached
	})
	require.Len(t, w.configured("web", "data").All, 1)
	w.Kubectl("delete", "vmbda", "att", "--wait=false")
	until(func() bool {
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

// leftOfExports returns the names of what is labelled as an export's.
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

// What the API server refuses of an attachment, in words for people.
func TestAttachmentsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	apply := func(spec string) error {
		cmd := w.KubectlCommand(t.Context(), "--namespace", w.Name, "apply", "--validate=strict", "-f", "-")
		cmd.Stdin = strings.NewReader("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineBlockDeviceAttachment, " +
			"metadata: {name: a}, spec: " + spec + "}")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s", regexp.MustCompile(`\s+`).ReplaceAllString(string(out), " "))
		}
		return nil
	}
	for spec, want := range map[string]string{
		"{}":                      "spec.virtualMachineName: Required value",
		"{virtualMachineName: a}": "spec.blockDeviceRef: Required value",
		"{virtualMachineName: A/b, blockDeviceRef: {kind: VirtualDisk, name: a}}":             "want the name of a VM in this namespace",
		"{virtualMachineName: a, blockDeviceRef: {kind: VirtualDisk, name: a.b}}":             "want the name of a VirtualDisk or VirtualImage in this",
		"{virtualMachineName: a, blockDeviceRef: {kind: ConfigMap, name: a}}":                 "want VirtualDisk, VirtualImage or ClusterVirtualImage",
		"{virtualMachineName: a, blockDeviceRef: {kind: VirtualMachine, name: a}}":            "want VirtualDisk, VirtualImage or ClusterVirtualImage",
		"{virtualMachineName: a, blockDeviceRef: {name: a}}":                                  "spec.blockDeviceRef.kind: Required value",
		"{virtualMachineName: a, blockDeviceRef: {kind: VirtualDisk, name: a, bootOrder: 1}}": `unknown field "spec.blockDeviceRef.bootOrder"`,
	} {
		require.ErrorContains(t, apply(spec), want, spec)
	}
	good := "{virtualMachineName: a, blockDeviceRef: {kind: VirtualDisk, name: a}}"
	require.NoError(t, apply(good))
	require.ErrorContains(t, apply(strings.Replace(good, "name: a}", "name: b}", 1)),
		"an attachment can't be changed: delete it, which detaches the disk, and create another one")
	a, _ := get(w, "a", &vmbda{})
	require.Equal(t, "NotSeen", a.Status.Reason)
}
