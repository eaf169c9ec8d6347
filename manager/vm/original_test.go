package vm

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// A template of VM-Operator isn't replaced by the standard type without a word.
func TestTemplateOfTheOriginal(t *testing.T) {
	t.Parallel()
	w := begin(t)
	from := func(template string) func(*v1.VirtualMachine) {
		return func(vm *v1.VirtualMachine) { vm.Spec.RunnerTemplate = &v1.RunnerTemplate{Source: template} }
	}
	w.vm("same", from("Standard-VM-latest.ftl.yaml"))
	w.boot("same")
	w.vm("own", from("windows.ftl.yaml"))
	vm := w.phase("own", v1.PhaseFailed, decide.ReasonTypeRefused)
	require.Contains(t, vm.Status.Message, "spec.runnerTemplate.source: windows.ftl.yaml is a template of VM-Operator: set spec.vmType.source to the VM type that replaces it")
	w.edit("own", func(vm *v1.VirtualMachine) { vm.Spec.VMType.Source = "windows" })
	w.boot("own")
}

// A VM that no manager has seen says so; what a manager says afterwards is all its own.
func TestNotSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.vm("web")
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.Equal(t, "NotSeen", vm.Status.Reason)
	w.manage(nil)
	w.boot("web")
	eventually(w, "web", &v1.VirtualMachine{}, "it runs", func(vm *v1.VirtualMachine) bool {
		return vm.Status.Phase == v1.PhaseRunning && vm.Status.Reason == "" && vm.Status.Message == ""
	})
}

// A VM that VM-Operator 4 has created keeps the disks, the data and the password
// that it had there.
func TestFromTheOriginal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vm := w.vm("web", stopped)
	original := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: w.Name, Labels: labels}
	}
	configuration := &corev1.ConfigMap{
		ObjectMeta: original("web", objects.Labels(vm)),
		Data:       map[string]string{objects.ConfigKey: `"/Runner": {vm: {name: web}}`},
	}
	configuration.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.GroupVersion().String(),
		Kind:       "VirtualMachine", Name: "web", UID: vm.UID,
	}}
	w.create(configuration)
	secret := &corev1.Secret{
		ObjectMeta: original("web-display-secret", objects.DisplaySecretLabels(vm)),
		Data:       map[string][]byte{objects.PasswordKey: []byte("x")},
	}
	w.create(secret)
	for name, mode := range map[string]corev1.PersistentVolumeMode{
		"web-runner-data": corev1.PersistentVolumeFilesystem,
		"web-system-disk": corev1.PersistentVolumeBlock,
	} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: original(name, objects.Labels(vm))}
		claim.Spec.VolumeMode = &mode
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		w.create(claim)
	}

	w.manage(nil)
	w.phase("web", v1.PhaseStopped, decide.ReasonStopped)
	w.edit("web", running)
	pod := w.boot("web")
	var claims []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			claims = append(claims, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	require.ElementsMatch(t, []string{"web-runner-data", "web-system-disk"}, claims)
	var all corev1.PersistentVolumeClaimList
	require.NoError(t, w.client.List(t.Context(), &all, client.InNamespace(w.Name)))
	require.Len(t, all.Items, 2, "none is made beside them")

	now, _ := get(w, "web", &corev1.ConfigMap{})
	require.Equal(t, configuration.UID, now.UID)
	require.Equal(t, vm.UID, metav1.GetControllerOf(now).UID)
	require.Contains(t, now.Data[objects.ConfigKey], "vmType: standard")
	same, _ := get(w, secret.Name, &corev1.Secret{})
	require.Equal(t, secret.ResourceVersion, same.ResourceVersion)
}
