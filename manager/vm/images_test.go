package vm

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	diskof "vmop/manager/disk"
	"vmop/manager/objects"
	"vmop/test/tier"
)

// image makes a VirtualImage of a web server.
func (w *world) image(name, class, size string) {
	w.t.Helper()
	w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualImage, metadata: {name: %s}, spec: {"+
		"persistentVolumeClaim: {storageClassName: %q, size: %s}, "+
		"dataSource: {type: HTTP, http: {url: 'https://example.org/x'}}}}", name, class, size))
}

// imageIs waits until an image has a phase for a reason.
func (w *world) imageIs(name string, phase v1.DiskPhase, reason string) *v1.VirtualImage {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualImage{}, string(phase)+" "+reason, func(i *v1.VirtualImage) bool {
		return i.Status.Phase == phase && i.Status.Reason == reason
	})
}

// imports plays the kubelet of a pod that imports: it ends, and says how.
func (w *world) imports(pod, said string) *corev1.Pod {
	w.t.Helper()
	p := eventually(w, pod, &corev1.Pod{}, "can start", func(p *corev1.Pod) bool {
		return len(p.Spec.SchedulingGates) == 0
	})
	ended := corev1.ContainerStatus{Name: "import"}
	ended.State.Terminated = &corev1.ContainerStateTerminated{Message: said}
	status := corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{ended}}
	text, err := json.Marshal(map[string]any{"status": status})
	require.NoError(w.t, err)
	patch := client.RawPatch(apitypes.MergePatchType, text)
	require.NoError(w.t, w.client.Status().Patch(w.t.Context(), p.DeepCopy(), patch))
	return p
}

func withImage(name string) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks = nil
		vm.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualImage, Name: name}}
	}
}

// An image is stored once, and had by two VMs at the same time, to read.
func TestAnImage(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class := w.storage(true, false, "1Gi")
	w.vm("one", withImage("debian"))
	missing := w.phase("one", v1.PhasePending, diskof.ReasonImageMissing)
	require.Equal(t, "spec.blockDeviceRefs[0]: there is no VirtualImage debian: the VM starts when it is created",
		missing.Status.Message)
	w.image("debian", class, "1Gi")
	// No VM decides where the volume is made.
	p := w.imports("vi-debian-import", `{"reason": "Imported", "format": "qcow2", "virtualSize": 1048576, "transferred": 1000}`)
	require.Contains(t, p.Spec.Containers[0].Args, "--url=https://example.org/x")
	var claim string
	for _, v := range p.Spec.Volumes {
		if v.Name == "target" {
			claim = v.PersistentVolumeClaim.ClaimName
		}
	}
	w.Kubectl("patch", "pvc", claim, "--type=merge", "-p", `{"spec": {"volumeName": "`+w.Name+`-0"}}`)
	i := w.imageIs("debian", v1.DiskReady, "")
	require.Equal(t, claim, i.Status.Target.PersistentVolumeClaimName)
	require.False(t, *i.Status.CDROM)
	require.Equal(t, "qcow2", i.Status.Format)
	require.Equal(t, "1Mi", i.Status.Size.Unpacked)
	require.Regexp(t, `^NAME +PHASE +CDROM +PROGRESS +AGE\ndebian +Ready +false +100% +\d+s\n$`, w.Kubectl("get", "vi"))

	w.vm("other", withImage("debian"))
	for _, vm := range []string{"one", "other"} {
		pod := w.boot(vm)
		at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "debian-vi" })
		require.GreaterOrEqual(t, at, 0)
		require.Equal(t, claim, pod.Spec.Volumes[at].PersistentVolumeClaim.ClaimName)
		require.True(t, pod.Spec.Volumes[at].PersistentVolumeClaim.ReadOnly)
		config, _ := get(w, vm, &corev1.ConfigMap{})
		require.Regexp(t, `(?s)drives:.*bootindex: 0.*resource: /dev/debian-vi.*readOnly: true.*serial: debian-vi`,
			config.Data[objects.ConfigKey])
	}
}

// What is wrong with an image is said where it is seen.
func TestFaultsOfImages(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class := w.storage(false, false, "1Gi")
	w.image("classless", "no-such-class", "1Gi")
	i := w.imageIs("classless", v1.DiskPending, diskof.ReasonNoClass)
	require.Contains(t, i.Status.Message, "the image is made when it is created")
	w.image("bad", class, "1Gi")
	w.imports("vi-bad-import", `{"reason": "ImageCorrupt", "message": "it was cut off"}`)
	eventually(w, "bad", &v1.VirtualImage{}, "has failed", func(i *v1.VirtualImage) bool {
		return i.Status.Phase != v1.DiskReady && i.Status.Reason != ""
	})
	w.vm("web", withImage("classless"))
	vm := w.phase("web", v1.PhasePending, diskof.ReasonImageNotReady)
	require.Equal(t, "spec.blockDeviceRefs[0]: the VirtualImage classless: "+i.Status.Message, vm.Status.Message)
}

// A disk is made of an image, and another one of that disk while no VM has it.
func TestCopiesOfImagesAndDisks(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	w := begin(t)
	class := w.storage(false, false, "1Gi", "1Gi", "1Gi")
	const good = `{"reason": "Imported", "format": "raw", "virtualSize": 1048576}`
	of := func(name, kind, source string) {
		w.Apply(fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: %s}, spec: {"+
			"persistentVolumeClaim: {storageClassName: %q, size: 1Gi}, "+
			"dataSource: {type: ObjectRef, objectRef: {kind: %s, name: %s}}}}", name, class, kind, source))
	}
	of("root", "VirtualImage", "debian")
	w.diskIs("root", v1.DiskPending, diskof.ReasonSourceMissing)
	w.image("debian", class, "1Gi")
	w.imports("vi-debian-import", good)
	p := w.imports("vd-root-import", good)
	require.Contains(t, p.Spec.Containers[0].Args, "--length=1048576")
	w.diskIs("root", v1.DiskReady, "")

	w.vm("web", withDisks("root"))
	pod := w.boot("web")
	of("clone", "VirtualDisk", "root")
	d := w.diskIs("clone", v1.DiskPending, diskof.ReasonSourceInUse)
	require.Contains(t, d.Status.Message, "the VirtualDisk root is attached to the VM web")
	w.edit("web", stopped)
	w.gone("web", pod)
	eventually(w, "vd-clone-import", &corev1.Pod{}, "can start", func(p *corev1.Pod) bool {
		return len(p.Spec.SchedulingGates) == 0
	})
	root, _ := get(w, "root", &v1.VirtualDisk{})
	require.Len(t, root.Status.CopiedBy, 1)
	w.edit("web", running)
	w.phase("web", v1.PhasePending, diskof.ReasonCopied)
	err := w.client.Delete(t.Context(), root)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "the disk is being copied into the VirtualDisk clone")
	w.imports("vd-clone-import", good)
	w.diskIs("clone", v1.DiskReady, "")
	w.diskOf("root", "web")
	w.boot("web")
}
