package controller

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
)

// Even with the longest possible names, a VM gets a valid pod: its label values and volume names have at most 63
// characters.
func TestLongestNames(t *testing.T) {
	t.Parallel()
	w := begin(t)
	name, diskName := strings.Repeat("v", 48), strings.Repeat("d", 48)
	w.vm(name, func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate = disk(diskName, "1Gi") })
	pod := w.boot(name)
	require.Contains(t, pod.Labels[appsv1.ControllerRevisionHashLabelKey], name+"-")
	_, is := get(w, diskName+"-disk-"+name+"-0", &corev1.PersistentVolumeClaim{})
	require.True(t, is)
	for _, refused := range []string{strings.Repeat("v", 49), "with.dot", "Upper"} {
		require.True(t, apierrors.IsInvalid(w.client.Create(t.Context(), machine(w.Name, refused))), refused)
	}
	longer := machine(w.Name, "long-disk")
	longer.Spec.VM.Disks[0].VolumeClaimTemplate = disk(strings.Repeat("d", 49), "1Gi")
	require.True(t, apierrors.IsInvalid(w.client.Create(t.Context(), longer)))
}

// Cloud-init data that exceed the limit of a ConfigMap are reported with their field, and a running VM keeps running.
func TestTooMuchUserData(t *testing.T) {
	t.Parallel()
	w := begin(t)
	large := &v1.CloudInit{UserData: &runtime.RawExtension{Raw: []byte(`{"write_files": [{"path": "/x", "content": "` +
		strings.Repeat("x", 1<<20) + `"}]}`)}}
	w.vm("large", func(vm *v1.VirtualMachine) { vm.Spec.CloudInit = large })
	vm := w.phase("large", v1.PhaseFailed, decide.ReasonRefused)
	require.Contains(t, vm.Status.Message, "spec.cloudInit is too large: the runner's configuration has 1024 KiB, and a ConfigMap holds 1008")
	w.vm("web")
	w.boot("web")
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.CloudInit = large })
	require.Equal(t, v1.PhaseRunning, w.told("web", "spec.cloudInit is too large").Status.Phase)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.CloudInit = nil })
	w.isWell("web")
}
