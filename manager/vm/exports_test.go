package vm

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/attachment"
	"vmop/manager/objects"
)

// What others do to the objects of an export: each is made again, and keeps nothing from ending.
func TestAnExportIsRepaired(t *testing.T) {
	t.Parallel()
	w := begin(t)
	pod := w.plugged("web", "data")
	export, _ := get(w, "vd-data", &corev1.Pod{})
	service, _ := get(w, "vd-data", &corev1.Service{})

	// A pod that its node evicts is never started again by Kubernetes.
	patch := `{"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."}}`
	require.NoError(t, w.client.Status().Patch(t.Context(), export.DeepCopy(), client.RawPatch(
		apitypes.MergePatchType, []byte(patch))))
	again := eventually(w, "vd-data", &corev1.Pod{}, "takes its place", func(p *corev1.Pod) bool {
		return p.UID != export.UID
	})
	require.Equal(t, service.Spec.ClusterIP, again.Annotations[objects.AnnotationAddress])
	w.attachmentIs("att", v1.AttachmentInProgress, attachment.ReasonExporting, "started again")
	w.serve("data")
	w.attachmentIs("att", v1.AttachmentAttached, "", "")

	// Someone else's Service in the place of the export's stays, and the disk is detached.
	require.NoError(t, w.client.Delete(t.Context(), service))
	stranger := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "vd-data", Namespace: w.Name}}
	stranger.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	require.NoError(t, w.client.Create(t.Context(), stranger))
	w.Kubectl("delete", "vmbda", "att", "--wait=false")
	w.reports("web", pod, w.configured("web").Revision)
	w.noAttachment("att")
	w.diskOf("data", "")
	stays, is := get(w, "vd-data", &corev1.Service{})
	require.True(t, is)
	require.Equal(t, stranger.UID, stays.UID)

	// It is in the way of the next one, until it is gone.
	w.attach("next", "web", "data")
	w.attachmentIs("next", v1.AttachmentPending, attachment.ReasonRefused,
		"there is a Service vd-data that is not of this export: waiting until it is gone")
	require.NoError(t, w.client.Delete(t.Context(), stranger))
	eventually(w, "vd-data", &corev1.Pod{}, "is made then", func(*corev1.Pod) bool { return true })

	// A Service that is gone before the drive is configured, as a manager leaves it that is killed while it ends an
	// export, is there again when the runner looks for it.
	service, _ = get(w, "vd-data", &corev1.Service{})
	require.NoError(t, w.client.Delete(t.Context(), service))
	w.serve("data")
	drives := w.configured("web", "data")
	require.Equal(t, service.Spec.ClusterIP, drives.All[0].Address)
	made, is := get(w, "vd-data", &corev1.Service{})
	require.True(t, is)
	require.NotEqual(t, service.UID, made.UID)
	require.Equal(t, service.Spec.ClusterIP, made.Spec.ClusterIP)
}
