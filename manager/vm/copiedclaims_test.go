package vm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	diskof "vmop/manager/disk"
	"vmop/test/tier"
	"vmop/test/wait"
)

const systemClaim = "system-disk-web-0"

// copyOfSystem makes a VirtualDisk that is a copy of the claim of the VM web.
func (w *world) copyOfSystem(name, class string) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: %s}, spec: {"+
		"persistentVolumeClaim: {storageClassName: %q, size: 1Gi}, dataSource: {type: ObjectRef, objectRef: {"+
		"kind: PersistentVolumeClaim, name: %s}}}}", name, class, systemClaim))
}

// onClass has the VM's disk on a storage class.
func onClass(class string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.StorageClassName = &class }
}

// copies waits until a pod copies a VM's claim into a disk, and returns it.
func (w *world) copies(disk string) *corev1.Pod {
	w.t.Helper()
	return eventually(w, "vd-"+disk+"-import", &corev1.Pod{}, "copies", func(p *corev1.Pod) bool {
		return len(p.Spec.SchedulingGates) == 0 && p.DeletionTimestamp == nil
	})
}

// A VM's claim is copied when it has the label, and the VM has stopped, which starts again when that is done.
func TestAClaimOfAVMIsCopied(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := begin(t)
	class := w.storage(false, false, "1Gi", "1Gi")
	w.vm("web", onClass(class))
	pod := w.boot("web")
	w.copyOfSystem("copy", class)
	d := w.diskIs("copy", v1.DiskPending, diskof.ReasonSourceForbidden)
	require.Equal(t, "the PersistentVolumeClaim system-disk-web-0 isn't marked as one that may be copied: "+
		"kubectl label pvc system-disk-web-0 vmoperator.jdrupes.org/data-source=true", d.Status.Message)
	w.Kubectl("label", "pvc", systemClaim, v1.LabelDataSource+"=true")
	w.advance(time.Minute)
	d = w.diskIs("copy", v1.DiskPending, diskof.ReasonSourceInUse)
	require.Equal(t, "the PersistentVolumeClaim system-disk-web-0 is in use by the VM web, which is to run: "+
		"it is copied when nothing writes to it", d.Status.Message)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.State = v1.Stopped })
	w.gone("web", pod)
	w.advance(time.Minute)
	copier := w.copies("copy")
	require.True(t, slices.ContainsFunc(copier.Spec.Volumes, func(v corev1.Volume) bool {
		c := v.PersistentVolumeClaim
		return c != nil && c.ClaimName == systemClaim && c.ReadOnly
	}))

	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.State = v1.Running })
	vm := w.phase("web", v1.PhasePending, diskof.ReasonCopied)
	require.Equal(t, "the claim system-disk-web-0 is being copied into the VirtualDisk copy: the VM starts when that is done",
		vm.Status.Message)
	w.advance(time.Minute)
	w.imports(copier.Name, `{"reason": "Imported", "format": "raw", "virtualSize": 1073741824}`)
	w.diskIs("copy", v1.DiskReady, "")
	w.boot("web")
}

// What copies a claim begins again if another pod has had the claim meanwhile.
func TestACopyOfAClaimThatWasWritten(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := begin(t)
	class := w.storage(false, false, "1Gi", "1Gi")
	w.vm("web", onClass(class), func(vm *v1.VirtualMachine) { vm.Spec.VM.State = v1.Stopped })
	eventually(w, systemClaim, &corev1.PersistentVolumeClaim{}, "is bound", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Status.Phase == corev1.ClaimBound
	})
	w.Kubectl("label", "pvc", systemClaim, v1.LabelDataSource+"=true")
	w.copyOfSystem("copy", class)
	first := w.copies("copy")
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stranger", Namespace: w.Name}}
	stranger.Spec.Containers = []corev1.Container{{
		Name: "a", Image: "a", VolumeDevices: []corev1.VolumeDevice{{Name: "a", DevicePath: "/dev/a"}},
	}}
	volume := corev1.Volume{Name: "a"}
	volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: systemClaim}
	stranger.Spec.Volumes = []corev1.Volume{volume}
	w.create(stranger)
	w.imports(first.Name, `{"reason": "Imported", "format": "raw", "virtualSize": 1073741824}`)
	d := w.diskIs("copy", v1.DiskPending, diskof.ReasonSourceInUse)
	require.Contains(t, d.Status.Message, "is in use by the pod stranger")
	require.Equal(t, diskof.ReasonSourceChanged, d.Status.Import.Reason)
	w.remove(stranger)
	clear := func() bool {
		w.advance(time.Minute)
		p, there := get(w, first.Name, &corev1.Pod{})
		return there && p.UID != first.UID && len(p.Spec.SchedulingGates) == 0
	}
	wait.Until(t, clear)
	w.imports(first.Name, `{"reason": "Imported", "format": "raw", "virtualSize": 1073741824}`)
	w.diskIs("copy", v1.DiskReady, "")
}
