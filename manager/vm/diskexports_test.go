package vm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	diskof "vmop/manager/disk"
	"vmop/test/wait"
)

// ask asks for an export of a disk or an image, and returns the request.
func (w *world) ask(kind, name string, within time.Duration) string {
	w.t.Helper()
	request := time.Now().Add(within).Format(time.RFC3339Nano)
	w.Kubectl("annotate", "--overwrite", kind, name, v1.AnnotationExport+"="+request)
	return request
}

// exportIs waits until the export of a disk has a phase for a reason.
func (w *world) exportIs(name string, phase v1.DiskExportPhase, reason string) *v1.VirtualDisk {
	w.t.Helper()
	return eventually(w, name, &v1.VirtualDisk{}, "export "+string(phase), func(d *v1.VirtualDisk) bool {
		e := d.Status.Export
		return e != nil && e.Phase == phase && e.Reason == reason
	})
}

// runsExporter plays the kubelet of a pod that exports: it has the phase.
func (w *world) runsExporter(name string, phase corev1.PodPhase) *corev1.Pod {
	w.t.Helper()
	p := eventually(w, name, &corev1.Pod{}, "can start", func(p *corev1.Pod) bool {
		return len(p.Spec.SchedulingGates) == 0 && p.DeletionTimestamp == nil
	})
	patch := client.RawPatch(apitypes.MergePatchType, fmt.Appendf(nil, `{"status": {"phase": %q}}`, phase))
	require.NoError(w.t, w.client.Status().Patch(w.t.Context(), p.DeepCopy(), patch))
	return p
}

func (w *world) noPod(name string) {
	w.t.Helper()
	wait.For(w.t, name+" is gone", func() error {
		if p, is := get(w, name, &corev1.Pod{}); is {
			return fmt.Errorf("it is there: %+v", p)
		}
		return nil
	})
}

// A disk is exported while no VM has it, and no VM gets it until its pod is gone. Nothing is left of it.
func TestAnExportToAUser(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class := w.storage(false, false, "1Gi", "1Gi")
	w.blankDisk("data", class, "1Gi")
	w.diskIs("data", v1.DiskReady, "")
	w.vm("web", withDisks("data"))
	pod := w.boot("web")
	w.ask("vd", "data", time.Hour)
	d := w.exportIs("data", v1.DiskExportPending, diskof.ReasonSourceInUse)
	require.Contains(t, d.Status.Export.Message, "attached to the VM web")
	w.edit("web", stopped)
	w.gone("web", pod)

	w.runsExporter("vd-data-export", corev1.PodRunning)
	d = w.exportIs("data", v1.DiskExportReady, diskof.ReasonFetchable)
	w.edit("web", running)
	vm := w.phase("web", v1.PhasePending, diskof.ReasonCopied)
	require.Contains(t, vm.Status.Message, "the VirtualDisk data is being exported: the VM starts when that is done")
	err := w.client.Delete(t.Context(), d)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "the disk is being exported")
	w.Kubectl("annotate", "vd", "data", v1.AnnotationExport+"-")
	w.noPod("vd-data-export")
	w.diskOf("data", "web")
	pod = w.boot("web")
	w.edit("web", stopped)
	w.gone("web", pod)

	// A pod from which the data isn't fetched any more ends by itself, and there is no other one.
	request := w.ask("vd", "data", time.Hour)
	w.runsExporter("vd-data-export", corev1.PodSucceeded)
	d = w.exportIs("data", v1.DiskExportEnded, diskof.ReasonNotFetched)
	require.Equal(t, request, d.Status.Export.Request)
	require.Empty(t, d.Status.Export.Pod)
	w.noPod("vd-data-export")

	// A request whose time has passed is removed.
	w.ask("vd", "data", -time.Second)
	eventually(w, "data", &v1.VirtualDisk{}, "has no request", func(d *v1.VirtualDisk) bool {
		return d.Annotations[v1.AnnotationExport] == "" && d.Status.Export == nil
	})
}

// An image is exported whoever has it.
func TestAnExportOfAnImage(t *testing.T) {
	t.Parallel()
	w := begin(t)
	class := w.storage(false, false, "1Gi")
	w.image("debian", class, "1Gi")
	w.imports("vi-debian-import", `{"reason": "Imported", "format": "qcow2", "virtualSize": 1048576}`)
	w.imageIs("debian", v1.DiskReady, "")
	w.vm("web", withImage("debian"))
	w.boot("web")
	w.ask("vi", "debian", time.Hour)
	p := w.runsExporter("vi-debian-export", corev1.PodRunning)
	require.Contains(t, p.Spec.Containers[0].Args, "--length=1048576")
	eventually(w, "debian", &v1.VirtualImage{}, "can be fetched", func(i *v1.VirtualImage) bool {
		return i.Status.Export != nil && i.Status.Export.Phase == v1.DiskExportReady
	})
	w.Kubectl("annotate", "vi", "debian", v1.AnnotationExport+"-")
	w.noPod("vi-debian-export")
	eventually(w, "debian", &v1.VirtualImage{}, "has no export", func(i *v1.VirtualImage) bool {
		return i.Status.Export == nil
	})
}
