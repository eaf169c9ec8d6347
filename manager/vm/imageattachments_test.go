package vm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/attachment"
	diskof "vmop/manager/disk"
	"vmop/manager/objects"
	"vmop/test/wait"
)

// aCD makes an image of a CD, which is ready.
func (w *world) aCD(name, class string) *v1.VirtualImage {
	w.t.Helper()
	w.image(name, class, "1Gi")
	w.imports("vi-"+name+"-import", `{"reason": "Imported", "format": "iso", "virtualSize": 1048576, "transferred": 1048576}`)
	return w.imageIs(name, v1.DiskReady, "")
}

// exportsTo waits until there is an export of an image to a VM, and returns its pod.
func (w *world) exportsTo(vm, image string) (export *corev1.Pod) {
	w.t.Helper()
	wait.Until(w.t, func() bool {
		var pods corev1.PodList
		require.NoError(w.t, w.client.List(w.playing(), &pods, client.InNamespace(w.Name),
			client.MatchingLabels{objects.LabelName: objects.ExportAppName}))
		for i, p := range pods.Items {
			if p.Annotations[objects.AnnotationVM] == vm && p.Annotations[objects.AnnotationImage] == image &&
				p.DeletionTimestamp == nil {
				export = &pods.Items[i]
			}
		}
		return export != nil
	})
	return export
}

// An image is attached to two VMs at the same time, each by an export of its own, which stays as long as its VM has it,
// also when the image is deleted. Another image of that name is attached only when the guest has let go of the first.
func TestAnImageIsAttachedToTwoVMs(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class := w.storage(false, true, "1Gi", "1Gi")
	i := w.aCD("drivers", class)
	pods, exports := map[string]*corev1.Pod{}, map[string]*corev1.Pod{}
	for _, vm := range []string{"one", "two"} {
		w.vm(vm)
		pods[vm] = w.boot(vm)
		w.attachKind("of-"+vm, vm, "VirtualImage", "drivers")
		exports[vm] = w.exportsTo(vm, "drivers")
		w.attachmentIs("of-"+vm, v1.AttachmentInProgress, attachment.ReasonExporting, "export is being started")
		volume := exports[vm].Spec.Volumes[0].PersistentVolumeClaim
		require.True(t, volume.ReadOnly)
		require.Equal(t, i.Status.Target.PersistentVolumeClaimName, volume.ClaimName)
		require.Contains(t, exports[vm].Spec.Containers[0].Args, "--read-only")
		of, _ := get(w, vm, &v1.VirtualMachine{})
		require.Equal(t, of.UID, exports[vm].OwnerReferences[0].UID, "it doesn't go with the image")
	}
	require.NotEqual(t, exports["one"].Name, exports["two"].Name)
	drives := map[string]objects.Drives{}
	for vm, export := range exports {
		w.ready(export)
		config := eventually(w, vm, &corev1.ConfigMap{}, "has the drive", func(c *corev1.ConfigMap) bool {
			return len(drivesIn(c).All) == 1
		})
		drives[vm] = drivesIn(config)
		require.Equal(t, []objects.AttachedDrive{{
			Image: "drivers", CD: true, Export: export.Name, Address: export.Annotations[objects.AnnotationAddress],
		}}, drives[vm].All)
		require.Regexp(t, `(?s)type: ide-cd.*export: `+export.Name+`.*serial: drivers\.vi`,
			config.Data[objects.ConfigKey])
		w.hasCertificates(vm, export)
		w.reports(vm, pods[vm], drives[vm].Revision, "drivers.vi", "Attached")
		w.attachmentIs("of-"+vm, v1.AttachmentAttached, "", "")
	}
	w.attachKind("twice", "one", "VirtualImage", "drivers")
	w.attachmentIs("twice", v1.AttachmentFailed, attachment.ReasonConflict,
		"the attachment of-one is for the VirtualImage drivers, too")
	w.Kubectl("delete", "vmbda", "twice", "--timeout=20s")

	// The image is deleted, and there is another one of the name.
	w.Kubectl("delete", "vi", "drivers", "--timeout=20s")
	w.aCD("drivers", class)
	w.Kubectl("label", "vmbda", "of-one", "of-two", "seen=again")
	w.attachmentIs("of-two", v1.AttachmentAttached, "", "")
	require.Equal(t, exports["two"].UID, w.exportsTo("two", "drivers").UID)
	w.Kubectl("delete", "vmbda", "of-one", "--wait=false")
	none := eventually(w, "one", &corev1.ConfigMap{}, "has no drive", func(c *corev1.ConfigMap) bool {
		return len(drivesIn(c).All) == 0
	})
	w.reports("one", pods["one"], drivesIn(none).Revision)
	w.noAttachment("of-one")
	w.attachKind("again", "one", "VirtualImage", "drivers")
	wait.Until(t, func() bool {
		return w.exportsTo("one", "drivers").Name != exports["one"].Name
	}, "of the other image")

	// The VM is deleted, and nothing is left of its export.
	require.NoError(t, w.client.Delete(t.Context(), machine(w.Name, "two")))
	eventually(w, pods["two"].Name, &corev1.Pod{}, "ends", func(p *corev1.Pod) bool {
		return p.DeletionTimestamp != nil
	})
	w.remove(pods["two"])
	wait.Until(t, func() bool {
		_, is := get(w, exports["two"].Name, &corev1.Pod{})
		return !is
	})
	w.attachmentIs("of-two", v1.AttachmentPending, attachment.ReasonVMMissing, "there is no VM two")
}

// What keeps an image from being attached is said, and a runner of an earlier version gets none.
func TestAnImageThatIsNotAttached(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.earlier = true
	w.vm("web")
	pod := w.boot("web")
	w.attachKind("att", "web", "VirtualImage", "drivers")
	w.attachmentIs("att", v1.AttachmentPending, attachment.ReasonRestart, "earlier version")
	w.earlier = false
	w.reports("web", pod, 0)
	w.attachmentIs("att", v1.AttachmentPending, diskof.ReasonImageMissing,
		"there is no VirtualImage drivers: it is attached when")
	w.image("drivers", w.storage(false, true, "1Gi"), "1Gi")
	w.attachmentIs("att", v1.AttachmentPending, diskof.ReasonImageNotReady, "the VirtualImage drivers")
	w.imports("vi-drivers-import", `{"reason": "Imported", "format": "raw", "virtualSize": 1048576, "transferred": 1048576}`)
	w.ready(w.exportsTo("web", "drivers"))
	config := eventually(w, "web", &corev1.ConfigMap{}, "has a disk", func(c *corev1.ConfigMap) bool {
		return len(drivesIn(c).All) == 1
	})
	text := config.Data[objects.ConfigKey]
	require.False(t, drivesIn(config).All[0].CD)
	require.NotContains(t, text, "ide-cd")
	require.Contains(t, text[strings.Index(text, "export:"):], "readOnly: true")
}
