package vm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "vmop/api/v1"
	diskof "vmop/manager/disk"
	"vmop/manager/objects"
	"vmop/manager/snapshot"
	"vmop/runner/status"
	"vmop/test/wait"
)

// vmSnapshot makes a snapshot of the VM "web".
func (w *world) vmSnapshot(name string, required bool) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineSnapshot, metadata: {name: %s}, spec: "+
		"{virtualMachineName: web, requiredConsistency: %t, volumeSnapshotClasses: [{storageClassName: %[3]s, "+
		"volumeSnapshotClassName: %[3]s}]}}", name, required, w.Name))
}

// vmSnapshotIs waits until a snapshot of a VM has a phase for a reason.
func (w *world) vmSnapshotIs(name string, phase v1.SnapshotPhase, reason string) *v1.VirtualMachineSnapshot {
	w.t.Helper()
	is := func(s *v1.VirtualMachineSnapshot) bool { return s.Status.Phase == phase && s.Status.Reason == reason }
	return eventually(w, name, &v1.VirtualMachineSnapshot{}, string(phase)+" "+reason, is)
}

// volumeSnapshotsOf waits for those of a snapshot of the VM "web", its disk "data", and more.
func (w *world) volumeSnapshotsOf(of string, more ...string) (all []*unstructured.Unstructured) {
	w.t.Helper()
	for i := range 3 + len(more) {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(snapshot.VolumeKind)
		all = append(all, eventually(w, snapshot.MachineVolumeName(of, i), o, "is there",
			func(*unstructured.Unstructured) bool { return true }))
	}
	return all
}

// boundByClass makes volumes for the claims of the VM "web".
func (w *world) boundByClass(class string) {
	w.t.Helper()
	for _, name := range []string{"runner-data-web-0", "system-disk-web-0"} {
		claim := eventually(w, name, &corev1.PersistentVolumeClaim{}, "is there",
			func(*corev1.PersistentVolumeClaim) bool { return true })
		w.create(&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: w.Name + "-" + name},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: class, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
				Capacity: claim.Spec.Resources.Requests,
				ClaimRef: &corev1.ObjectReference{Namespace: w.Name, Name: name, UID: claim.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: "example.org", VolumeHandle: name,
				}},
			},
		})
		w.t.Cleanup(func() {
			made := metav1.ObjectMeta{Name: w.Name + "-" + name}
			_ = w.client.Delete(w.playing(), &corev1.PersistentVolume{ObjectMeta: made})
		})
		eventually(w, name, &corev1.PersistentVolumeClaim{}, "is bound", func(c *corev1.PersistentVolumeClaim) bool {
			return c.Status.Phase == corev1.ClaimBound
		})
	}
}

// snapshotWorld is a world with storage that makes snapshots, and the VM "web" with a disk of its own
// and the disk "data".
func snapshotWorld(t *testing.T, g *guests) (w *world, class string, end func()) {
	t.Helper()
	w = newWorld(t)
	w.guests = g
	class = w.storage(false, true, "1Gi")
	settings := *w.settings.Load()
	settings.DataStorageClass = &class
	w.settings.Store(&settings)
	end = w.manage(nil)
	w.snapshotClass("kubernetes.io/no-provisioner")
	w.blankDisk("data", class, "1Gi")
	w.diskIs("data", v1.DiskReady, "")
	w.vm("web", withDisks("data"), func(vm *v1.VirtualMachine) {
		vm.Labels = map[string]string{"team": "green"}
		own := disk("system", "1Gi")
		own.Spec.StorageClassName = &class
		own.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany}
		vm.Spec.VM.Disks = []v1.Disk{{VolumeClaimTemplate: own}}
	})
	w.boundByClass(class)
	return w, class, end
}

// All volumes of a VM are captured while its guest is frozen, and another VM is made of them.
func TestSnapshotsOfAVM(t *testing.T) {
	t.Parallel()
	g := &guests{answer: status.FreezeAnswer{Frozen: true, FileSystems: 2}, thawed: 2}
	w, class, _ := snapshotWorld(t, g)
	w.boot("web")
	w.vmSnapshot("one", true)
	volumes := w.volumeSnapshotsOf("one")
	require.Equal(t, []string{"freeze"}, g.did())
	for _, o := range volumes[:2] {
		w.driver(o, stored())
	}
	s := w.vmSnapshotIs("one", v1.SnapshotInProgress, snapshot.ReasonCapturing)
	require.Nil(t, s.Status.Consistent)
	require.Empty(t, g.did(), "it is frozen until all have their moment")
	w.driver(volumes[2], stored())
	s = w.vmSnapshotIs("one", v1.SnapshotReady, "")
	require.Equal(t, []string{"thaw"}, g.did())
	require.True(t, *s.Status.Consistent)
	require.True(t, meta.IsStatusConditionTrue(s.Status.Conditions, v1.SnapshotConditionConsistent))
	require.NotNil(t, s.Status.CreationTime)
	require.Len(t, s.Status.Volumes, 3)
	var of []string
	for i, v := range s.Status.Volumes {
		require.Equal(t, volumes[i].GetUID(), v.VolumeSnapshotUID)
		require.True(t, metav1.IsControlledBy(volumes[i], s), "they go with the snapshot")
		require.Equal(t, class, v.StorageClassName)
		kind := string(v.VolumeMode) + string(v.AccessMode)
		of = append(of, v.Name+v.VirtualDiskName+" "+v.PersistentVolumeClaimName+" "+kind)
	}
	require.Equal(t, []string{
		"runner-data runner-data-web-0 Filesystem", "system-disk system-disk-web-0 BlockReadWriteMany",
		"data vd-data Block",
	}, of)
	require.Equal(t, "green", s.Status.Definition.Labels["team"])
	require.Contains(t, string(s.Status.Definition.Spec.Raw),
		`"blockDeviceRefs":[{"kind":"VirtualDisk","name":"data"}]`)
	require.Regexp(t, `^NAME +PHASE +CONSISTENT +VIRTUALMACHINE +AGE\none +Ready +true +web +\d+s\n$`,
		w.Kubectl("get", "vmsnapshot"))

	// Another VM waits for its snapshot, and gets claims of it.
	w.vm("copy", stopped, func(vm *v1.VirtualMachine) {
		vm.Spec.DataSource = &v1.VirtualMachineDataSource{Kind: v1.KindVMSnapshot, Name: "two"}
		vm.Spec.VM.Disks = append(vm.Spec.VM.Disks, v1.Disk{VolumeClaimTemplate: disk("more", "1Gi")})
	})
	vm := eventually(w, "copy", &v1.VirtualMachine{}, "waits", func(vm *v1.VirtualMachine) bool {
		c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled)
		return c != nil && c.Reason == diskof.ReasonSnapshotMissing
	})
	c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled)
	require.Contains(t, c.Message, "there is no VirtualMachineSnapshot two (spec.dataSource)")
	_, made := get(w, "system-disk-copy-0", &corev1.PersistentVolumeClaim{})
	require.False(t, made, "it is not made empty")
	w.edit("copy", func(vm *v1.VirtualMachine) { vm.Spec.DataSource.Name = "one" })
	for name, want := range map[string]string{
		"runner-data-copy-0": "vms-one-0", "system-disk-copy-0": "vms-one-1", "more-disk-copy-0": "",
	} {
		claim := eventually(w, name, &corev1.PersistentVolumeClaim{}, "is there",
			func(*corev1.PersistentVolumeClaim) bool { return true })
		have := ""
		if claim.Spec.DataSource != nil {
			have = claim.Spec.DataSource.Name
			require.Equal(t, class, *claim.Spec.StorageClassName, name)
		}
		require.Equal(t, want, have, name)
	}
	eventually(w, "copy", &v1.VirtualMachine{}, "trusts its claims", func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.Volumes) == 1 && vm.Status.Volumes[0].Untrusted == "" && vm.Status.Phase == v1.PhaseStopped
	})

	// The VM itself gets claims of it beside those that it has, which it keeps while it is running, and no snapshot is
	// made of those that it will have.
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Spec.ClaimNameSuffix = "r1"
		vm.Spec.DataSource = &v1.VirtualMachineDataSource{Kind: v1.KindVMSnapshot, Name: "one"}
	})
	for name, want := range map[string]string{
		"runner-data-web-0.r1": "vms-one-0", "system-disk-web-0.r1": "vms-one-1",
	} {
		claim := eventually(w, name, &corev1.PersistentVolumeClaim{}, "is there",
			func(*corev1.PersistentVolumeClaim) bool { return true })
		require.Equal(t, want, claim.Spec.DataSource.Name)
	}
	eventually(w, "web", &v1.VirtualMachine{}, "awaits a restart", func(vm *v1.VirtualMachine) bool {
		return slices.ContainsFunc(vm.Status.RestartAwaitingChanges, objects.OtherVolumes)
	})
	set := eventually(w, "web", &appsv1.StatefulSet{}, "has the other claims", func(set *appsv1.StatefulSet) bool {
		return objects.Mounts(&set.Spec.Template.Spec, "system-disk-web-0.r1")
	})
	require.False(t, objects.Mounts(&set.Spec.Template.Spec, "system-disk-web-0"))
	w.vmSnapshot("three", false)
	s = w.vmSnapshotIs("three", v1.SnapshotPending, snapshot.ReasonBusy)
	require.Contains(t, s.Status.Message, "spec.claimNameSuffix")
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.ClaimNameSuffix = "" })
	eventually(w, "web", &v1.VirtualMachine{}, "has its own again", func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.RestartAwaitingChanges) == 0 && vm.Status.ObservedGeneration == vm.Generation
	})

	// So does a disk.
	source := func(name, of string) {
		w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: %s}, spec: "+
			"{persistentVolumeClaim: {storageClassName: %q, size: 2Gi}, dataSource: {type: ObjectRef, objectRef: "+
			"{kind: VirtualMachineSnapshot, name: one, virtualDiskName: %s}}}}", name, class, of))
	}
	source("copy-data", "data")
	w.diskIs("copy-data", v1.DiskPending, diskof.ReasonProvisioning)
	claim, _ := get(w, "vd-copy-data", &corev1.PersistentVolumeClaim{})
	require.Equal(t, "vms-one-2", claim.Spec.DataSource.Name)
	source("copy-other", "other")
	d := w.diskIs("copy-other", v1.DiskPending, diskof.ReasonSnapshotNotReady)
	require.Contains(t, d.Status.Message, "the VirtualMachineSnapshot one is Failed: it has no VirtualDisk other")

	// What is lost is not made again.
	require.NoError(t, w.client.Delete(t.Context(), volumes[1]))
	s = w.vmSnapshotIs("one", v1.SnapshotFailed, snapshot.ReasonLost)
	require.Contains(t, s.Status.Message, "vms-one-1 is gone")
}

// What the guest has beside the definition's disks is captured with them, at the same moment.
func TestASnapshotOfAVMHasAttachedDisks(t *testing.T) {
	t.Parallel()
	g := &guests{answer: status.FreezeAnswer{Frozen: true, FileSystems: 3}, thawed: 3}
	w, class, _ := snapshotWorld(t, g)
	w.volume(w.Name+"-more", "1Gi")
	w.blankDisk("more", class, "1Gi")
	w.diskIs("more", v1.DiskReady, "")
	pod := w.boot("web")
	w.attach("att", "web", "more")
	w.serve("more")
	w.reports("web", pod, w.configured("web", "more").Revision, "more", "Attached")
	w.attachmentIs("att", v1.AttachmentAttached, "", "")
	eventually(w, "web", &v1.VirtualMachine{}, "has both disks", func(vm *v1.VirtualMachine) bool {
		return len(vm.Status.BlockDeviceRefs) == 2 && vm.Status.BlockDeviceRefs[1].Attached
	})
	w.vmSnapshot("one", true)
	volumes := w.volumeSnapshotsOf("one", "more")
	for _, o := range volumes {
		w.driver(o, stored())
	}
	s := w.vmSnapshotIs("one", v1.SnapshotReady, "")
	require.True(t, *s.Status.Consistent)
	require.Equal(t, []string{"freeze", "thaw"}, g.did())
	last := s.Status.Volumes[3]
	d, _ := get(w, "more", &v1.VirtualDisk{})
	require.Equal(t, "more", last.VirtualDiskName)
	require.Equal(t, d.Status.Target.UID, last.PersistentVolumeClaimUID)
	claim, _, _ := unstructured.NestedString(volumes[3].Object, "spec", "source", "persistentVolumeClaimName")
	require.Equal(t, d.Status.Target.PersistentVolumeClaimName, claim)
}

// A VM that is off needs no freeze; one whose guest can't be frozen is captured disk by disk, if that is allowed.
func TestConsistencyOfSnapshotsOfAVM(t *testing.T) {
	t.Parallel()
	g := &guests{answer: status.FreezeAnswer{Message: "not frozen: crash-consistent, because no guest agent is connected"}}
	w, _, _ := snapshotWorld(t, g)
	w.boot("web")
	w.vmSnapshot("torn", true)
	s := w.vmSnapshotIs("torn", v1.SnapshotFailed, snapshot.ReasonNotConsistent)
	require.Contains(t, s.Status.Message, "no guest agent is connected; it is asked for a consistent one")
	w.vmSnapshot("any", false)
	for _, o := range w.volumeSnapshotsOf("any") {
		w.driver(o, stored())
	}
	s = w.vmSnapshotIs("any", v1.SnapshotReady, "")
	require.False(t, *s.Status.Consistent)
	require.Contains(t, s.Status.Message, "as after a power cut, and each disk at a moment of its own: the VM web is running")

	// Thawed before all had their moment.
	g.answer = status.FreezeAnswer{Frozen: true, FileSystems: 2}
	w.vmSnapshot("late", true)
	for _, o := range w.volumeSnapshotsOf("late") {
		w.driver(o, stored())
	}
	s = w.vmSnapshotIs("late", v1.SnapshotFailed, snapshot.ReasonNotConsistent)
	require.Contains(t, s.Status.Message, "were thawed before the snapshots were made")
	w.noVMVolumes("late")
	g.did()

	pod, _ := get(w, "web-0", &corev1.Pod{})
	w.edit("web", stopped)
	w.gone("web", pod)
	w.vmSnapshot("at-rest", true)
	for _, o := range w.volumeSnapshotsOf("at-rest") {
		w.driver(o, stored())
	}
	require.True(t, *w.vmSnapshotIs("at-rest", v1.SnapshotReady, "").Status.Consistent)
	require.Empty(t, g.did())
}

func (w *world) noVMVolumes(of string) {
	w.t.Helper()
	wait.Until(w.t, func() bool {
		return w.Kubectl("get", "volumesnapshots", "-l", "app.kubernetes.io/instance="+of, "-o", "name") == ""
	})
}

// A manager that ends while a snapshot is made leaves VolumeSnapshots, which the next one makes again.
func TestAManagerEndsWhileASnapshotOfAVMIsMade(t *testing.T) {
	t.Parallel()
	g := &guests{answer: status.FreezeAnswer{Frozen: true, FileSystems: 2}, thawed: 2}
	w, _, end := snapshotWorld(t, g)
	w.boot("web")
	w.vmSnapshot("one", true)
	first := w.volumeSnapshotsOf("one")
	end()
	w.driver(first[0], stored())
	w.manage(nil)
	for i, o := range first {
		again := &unstructured.Unstructured{}
		again.SetGroupVersionKind(snapshot.VolumeKind)
		again = eventually(w, snapshot.MachineVolumeName("one", i), again, "is another one",
			func(is *unstructured.Unstructured) bool { return is.GetUID() != o.GetUID() })
		w.driver(again, stored())
	}
	s := w.vmSnapshotIs("one", v1.SnapshotReady, "")
	require.True(t, *s.Status.Consistent)
	require.Len(t, s.Status.Volumes, 3)
}

func TestSnapshotsOfVMsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	make := func(kind, name, spec string) error {
		o := &unstructured.Unstructured{}
		require.NoError(t, o.UnmarshalJSON([]byte(`{"apiVersion": "vmoperator.jdrupes.org/v1", "kind": "`+kind+`",
			"metadata": {"name": "`+name+`", "namespace": "`+w.Name+`"}, "spec": `+spec+`}`)))
		return w.client.Create(t.Context(), o)
	}
	const kind = v1.KindVMSnapshot
	require.ErrorContains(t, make(kind, "a.b", `{"virtualMachineName": "web"}`), "metadata.name must be a DNS label")
	require.ErrorContains(t, make(kind, "a", `{"virtualMachineName": "A/B"}`), "want the name of a VM")
	require.ErrorContains(t, make(kind, "a", `{}`), "spec.virtualMachineName: Required value")
	require.ErrorContains(t, make(kind, "a", `{"virtualMachineName": "web", "volumeSnapshotClasses": [
		{"storageClassName": "a", "volumeSnapshotClassName": "b"},
		{"storageClassName": "a", "volumeSnapshotClassName": "c"}]}`), "Duplicate value")
	require.NoError(t, make(kind, "a", `{"virtualMachineName": "web"}`))
	s, _ := get(w, "a", &v1.VirtualMachineSnapshot{})
	require.True(t, *s.Spec.RequiredConsistency)
	s.Spec.VirtualMachineName = "other"
	require.ErrorContains(t, w.client.Update(t.Context(), s), "a snapshot can't be changed: make another one")
	disk := func(ref string) error {
		return make("VirtualDisk", "d", `{"persistentVolumeClaim": {"size": "1Gi"},
			"dataSource": {"type": "ObjectRef", "objectRef": `+ref+`}}`)
	}
	require.ErrorContains(t, disk(`{"kind": "VirtualMachineSnapshot", "name": "a"}`),
		"says which disk of a VirtualMachineSnapshot is meant")
	require.ErrorContains(t, disk(`{"kind": "VirtualDiskSnapshot", "name": "a", "virtualDiskName": "b"}`),
		"is left out otherwise")
	require.ErrorContains(t, make("VirtualMachine", "v", `{"vm": {},
		"dataSource": {"kind": "VirtualDiskSnapshot", "name": "a"}}`), "spec.dataSource.kind: Unsupported value")
}
