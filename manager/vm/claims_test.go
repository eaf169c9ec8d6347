package vm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/test/wait"
)

// told waits until a VM's condition Reconciled is False with a message.
func (w *world) told(name, message string) *v1.VirtualMachine {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualMachine{}, "the message "+message, func(vm *v1.VirtualMachine) bool {
		status, said := reconciled(vm)
		return status == metav1.ConditionFalse && strings.Contains(said, message)
	})
}

// allWell waits until a VM's condition Reconciled is True.
func (w *world) allWell(name string) {
	w.t.Helper()
	eventually(w, name, &v1.VirtualMachine{}, "all is well", func(vm *v1.VirtualMachine) bool {
		status, _ := reconciled(vm)
		return status == metav1.ConditionTrue
	})
}

// bound makes a VM whose disk has a volume of a storage class that lets volumes
// grow, or not.
func (w *world) bound(name string, grows bool) *storagev1.StorageClass {
	w.t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: w.Name},
		Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: &grows,
	}
	w.create(class)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.Name}}
	volume.Spec = corev1.PersistentVolumeSpec{
		StorageClassName: class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
	}
	w.create(volume)
	w.vm(name, func(vm *v1.VirtualMachine) {
		files := corev1.PersistentVolumeFilesystem
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.StorageClassName = &class.Name
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.VolumeMode = &files
	})
	eventually(w, "system-disk-"+name+"-0", &corev1.PersistentVolumeClaim{}, "it has its volume",
		func(c *corev1.PersistentVolumeClaim) bool {
			return c.Status.Phase == corev1.ClaimBound
		})
	return class
}

func (w *world) askFor(vm, size string) {
	w.t.Helper()
	w.edit(vm, func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(
			size)
	})
}

// A claim grows with its VM's definition, where its storage class lets it.
func TestClaimGrows(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.bound("web", true)
	w.askFor("web", "2Gi")
	eventually(w, "system-disk-web-0", &corev1.PersistentVolumeClaim{}, "it asks for more",
		func(c *corev1.PersistentVolumeClaim) bool {
			return c.Spec.Resources.Requests.Storage().String() == "2Gi"
		})
	events := w.events("web", "ClaimGrown")
	require.Len(t, events, 1)
	require.Contains(t, events[0].Note, "now requests 2Gi instead of 1Gi")
	w.boot("web")
}

// Where its storage class does not let it grow, that is reported, once, and the VM keeps
// running and follows all else. It is tried again after a while.
func TestClaimMayNotGrow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	via := newWire()
	w.manage(via)
	class := w.bound("web", false)
	pod := w.boot("web")
	w.askFor("web", "2Gi")
	vm := w.told("web", "spec.vm.disks[0].volumeClaimTemplate.spec.resources.requests.storage: the claim system-disk-web-0 stays at 1Gi and does not grow to 2Gi: "+
		"request 1Gi, or let the storage class "+class.Name+" expand volumes (allowVolumeExpansion: true); ")
	require.Equal(t, decide.ReasonClaim, meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled).Reason)
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
	for range 5 {
		w.look()
	}
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks = append(vm.Spec.VM.Disks, v1.Disk{VolumeClaimTemplate: disk("more", "1Gi")})
	})
	eventually(w, "more-disk-web-0", &corev1.PersistentVolumeClaim{}, "a disk more",
		func(*corev1.PersistentVolumeClaim) bool {
			return true
		})
	w.edit("web", stopped)
	w.gone("web", pod)
	w.phase("web", v1.PhaseStopped, decide.ReasonStopped)
	w.edit("web", running)
	w.boot("web")
	require.Len(t, w.events("web", "ClaimNotChanged"), 1)
	tries := func() (n int) {
		for _, s := range via.written() {
			if s == "PATCH /api/v1/namespaces/"+w.Name+"/persistentvolumeclaims/system-disk-web-0" {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, tries(), "it was asked to grow once")

	class.AllowVolumeExpansion = new(true)
	require.NoError(t, w.client.Update(t.Context(), class))
	w.advance(refusalLasts)
	w.allWell("web")
	require.Equal(t, 2, tries())
}

// A claim without a volume doesn't grow; when it has one it does.
func TestClaimWithoutVolume(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", stopped)
	w.phase("web", v1.PhaseStopped, decide.ReasonStopped)
	w.askFor("web", "2Gi")
	w.told("web", "the claim system-disk-web-0 stays at 1Gi and does not grow to 2Gi: it can grow once it has a volume")
	w.askFor("web", "1Gi")
	w.allWell("web")
}

// An event says what deleting the claims of a running VM means, before it is too late,
// and what is created in their place.
func TestClaimDeleted(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	for _, name := range []string{"runner-data-web-0", "system-disk-web-0"} {
		claim, _ := get(w, name, &corev1.PersistentVolumeClaim{})
		require.NoError(t, w.client.Delete(t.Context(), claim))
	}
	w.told("web", "the runner's data: the claim runner-data-web-0 is being deleted, which cannot be undone. The VM keeps it until its pod ends; "+
		"for the next start, an empty one is created, with a new machine uuid, firmware variables and TPM.")
	vm := eventually(w, "web", &v1.VirtualMachine{}, "of both", func(vm *v1.VirtualMachine) bool {
		_, message := reconciled(vm)
		return len(w.events("web", decide.ReasonClaimDeleted)) == 2 && len(message) > 400
	})
	_, message := reconciled(vm)
	require.Contains(t, message, "spec.vm.disks[0].volumeClaimTemplate: the claim system-disk-web-0 is being deleted")
	require.Equal(t, decide.ReasonClaimDeleted, meta.FindStatusCondition(vm.Status.Conditions,
		v1.ConditionReconciled).Reason)
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)

	require.NoError(t, w.client.Delete(t.Context(), pod.DeepCopy()))
	eventually(w, "web", &appsv1.StatefulSet{}, "none follows yet", func(s *appsv1.StatefulSet) bool {
		return *s.Spec.Replicas == 0
	})
	w.gone("web", pod)
	second := w.boot("web")
	require.NotEqual(t, pod.UID, second.UID)
	w.allWell("web")
	made := w.events("web", "ClaimMade")
	require.Len(t, made, 2)
	for _, e := range made {
		if e.Type == corev1.EventTypeWarning {
			require.Contains(t, e.Note, "runner-data-web-0 has been created for the runner's data: it is empty, since the previous one is gone")
		}
	}
}

// A claim that is gone while the VM runs is not made again under it.
func TestClaimLost(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	const name = "system-disk-web-0"
	lost, _ := get(w, name, &corev1.PersistentVolumeClaim{})
	require.NoError(t, w.client.Delete(t.Context(), lost))
	require.NoError(t, w.client.Patch(t.Context(), lost,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))))
	vm := w.told("web", "spec.vm.disks[0].volumeClaimTemplate: the claim system-disk-web-0 is gone")
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)
	require.NotEmpty(t, w.events("web", decide.ReasonClaimDeleted))
	_, is := get(w, name, &corev1.PersistentVolumeClaim{})
	require.False(t, is, "an empty one would hide it")

	require.NoError(t, w.client.Delete(t.Context(), pod.DeepCopy()))
	eventually(w, "web", &appsv1.StatefulSet{}, "none follows yet", func(s *appsv1.StatefulSet) bool {
		return *s.Spec.Replicas == 0
	})
	w.gone("web", pod)
	w.boot("web")
	_, is = get(w, name, &corev1.PersistentVolumeClaim{})
	require.True(t, is)
}

// What the scheduler doesn't say: which claim has no volume, and why.
func TestClaimsWithoutVolumes(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class := "gold"
	w.vm("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.StorageClassName = &class })
	w.explained("web", decide.ReasonClaimPending, `the claim system-disk-web-0 has no volume: storageclass.storage.k8s.io "gold" not found (spec.vm.disks[0].volumeClaimTemplate.spec.storageClassName)`)
	w.vm("db", func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks = nil })
	w.explained("db", decide.ReasonClaimPending, "the claim runner-data-db-0 has no volume: it names no storage class, and the cluster has no default one (set runnerDataPvc.storageClassName of the manager's configuration)")
}

// A memory limit at which the kernel kills the VM is reported, and kept.
func TestLimitTooLow(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.MaximumRAM = new(resource.MustParse("2Gi"))
		vm.Spec.Resources = &v1.Resources{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	})
	pod := w.boot("web")
	require.Equal(t, "1Gi", pod.Spec.Containers[0].Resources.Limits.Memory().String())
	vm := w.told("web", "spec.resources.limits.memory: it is 1Gi, but the VM may need ")
	require.Equal(t, decide.ReasonLimit, meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled).Reason)
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Spec.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("4Gi")
	})
	w.allWell("web")
}

// What can't change in a claim is reported, once, with what the claim has and what would
// be right, also by a manager that has just started, and no longer than it holds.
// The VM keeps running.
func TestClaimKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := w.manage(nil)
	class := w.bound("web", false)
	pod := w.boot("web")
	template := func(vm *v1.VirtualMachine) *v1.ClaimSpec { return &vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec }
	w.edit("web", func(vm *v1.VirtualMachine) { template(vm).StorageClassName = nil })
	w.edit("web", func(vm *v1.VirtualMachine) {
		template(vm).StorageClassName, template(vm).AccessModes = new("fast"),
			[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})
	modes := "spec.vm.disks[0].volumeClaimTemplate.spec.accessModes: the claim system-disk-web-0 exists with ReadWriteOnce, which cannot change to ReadWriteMany: " +
		"ask for ReadWriteOnce, or give the disk another metadata.name, for which an empty claim is created, and copy the data; " +
		"if the data is not needed, delete the claim while the VM is stopped"
	classes := "spec.vm.disks[0].volumeClaimTemplate.spec.storageClassName: the claim system-disk-web-0 exists with " +
		class.Name + ", which cannot change to fast: ask for " + class.Name + ", or "
	vm := w.told("web", modes+"; "+classes)
	require.Equal(t, decide.ReasonClaim, meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled).Reason)
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)

	end()
	via := newWire()
	w.manage(via)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Annotations = map[string]string{"seen": "1"} })
	eventually(w, pod.Name, &corev1.Pod{}, "the VM is looked at", func(p *corev1.Pod) bool {
		return p.Annotations["seen"] == "1"
	})
	w.told("web", modes+"; "+classes)
	require.NotContains(t, strings.Join(via.written(), "\n"), "persistentvolumeclaims")

	w.edit("web", func(vm *v1.VirtualMachine) { // cannot grow either
		template(vm).AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		template(vm).Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	})
	w.told("web", "stays at 1Gi and does not grow to 2Gi")
	for range 3 {
		w.look()
	}
	vm = w.told("web", classes)
	_, message := reconciled(vm)
	require.NotContains(t, message, "accessModes")
	for _, e := range w.events("web", "ClaimNotChanged") {
		require.Equal(t, corev1.EventTypeWarning, e.Type)
	}
	wait.Until(t, func() bool { return len(w.events("web", "ClaimNotChanged")) == 3 },
		"of the modes, the class, the size")

	w.edit("web", func(vm *v1.VirtualMachine) {
		template(vm).StorageClassName, template(vm).Resources.Requests[corev1.ResourceStorage] = &class.Name,
			resource.MustParse("1Gi")
	})
	w.isWell("web")
	_, is := get(w, pod.Name, pod)
	require.True(t, is)
}

// isWell waits until a VM's condition Reconciled holds.
func (w *world) isWell(name string) {
	w.t.Helper()
	eventually(w, name, &v1.VirtualMachine{}, "all is well", func(vm *v1.VirtualMachine) bool {
		status, _ := reconciled(vm)
		return status == metav1.ConditionTrue && vm.Status.ObservedGeneration == vm.Generation
	})
}

// A pod that mounts a file system where there is none would never start: the VM is
// not started until the definition fits the claim.
func TestClaimOfAnotherMode(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	files, block := corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.VolumeMode = &files })
	const message = "spec.vm.disks[0].volumeClaimTemplate.spec.volumeMode: the claim system-disk-web-0 exists with Block, which cannot change to Filesystem"
	require.Equal(t, v1.PhaseRunning, w.told("web", message).Status.Phase)
	require.NoError(t, w.client.Delete(t.Context(), pod.DeepCopy()))
	w.gone("web", pod)
	require.Contains(t, w.phase("web", v1.PhaseFailed, decide.ReasonClaim).Status.Message, message)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.VolumeMode = &block })
	w.boot("web")
	w.isWell("web")
}

// A claim that waits for a storage class gets the one that the VM is given: that is
// what the message advises.
func TestClaimGetsItsClass(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	w.phase("web", v1.PhasePending, decide.ReasonClaimPending)
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.StorageClassName = new("gold")
		vm.Spec.VM.Disks[0].VolumeClaimTemplate.Metadata.Labels = map[string]string{"tier": "one"}
	})
	eventually(w, "system-disk-web-0", &corev1.PersistentVolumeClaim{}, "it has a class and labels",
		func(c *corev1.PersistentVolumeClaim) bool {
			return c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == "gold" && c.Labels["tier"] == "one"
		})
	w.isWell("web")
}

// Wrong levels in a VM's own logging.properties are reported, with the line and what is
// right; loggers that the original has are not.
func TestLevelsOfItsOwn(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", stopped, func(vm *v1.VirtualMachine) {
		vm.Spec.LoggingProperties = "org.jgrapes.level=FINE\n.level=DEBUG\n"
	})
	vm := w.told("web", `spec.loggingProperties: line 2: .level: "DEBUG" is no level (it is called FINE here)`)
	require.Equal(t, decide.ReasonLogging, meta.FindStatusCondition(vm.Status.Conditions,
		v1.ConditionReconciled).Reason)
	require.Equal(t, v1.PhaseStopped, vm.Status.Phase)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.LoggingProperties = "org.jgrapes.level=FINE\n.level=FINE\n" })
	w.isWell("web")
}
