package vm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// The longest names that the API server takes make a pod: its labels and volumes
// have names of at most 63 characters.
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

// Two VMs whose disks' claims have the same name: one has it, and the other
// reports so, even if both are created at once.
func TestSameClaim(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("a", func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate = disk("x-disk-b", "1Gi") })
	w.vm("b-disk-a", func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate = disk("x", "1Gi") })
	claim := eventually(w, "x-disk-b-disk-a-0", &corev1.PersistentVolumeClaim{}, "there is one",
		func(*corev1.PersistentVolumeClaim) bool {
			return true
		})
	has, other := claim.Labels[objects.LabelInstance], "a"
	if has == "a" {
		other = "b-disk-a"
	}
	vm := w.phase(other, v1.PhaseFailed, decide.ReasonClaim)
	require.Contains(t, vm.Status.Message, "spec.vm.disks[0].volumeClaimTemplate: the claim x-disk-b-disk-a-0 belongs to the VM "+has)
	w.boot(has)
	same, _ := get(w, claim.Name, &corev1.PersistentVolumeClaim{})
	require.Equal(t, has, same.Labels[objects.LabelInstance])
	w.edit(other, func(vm *v1.VirtualMachine) { vm.Spec.VM.Disks[0].VolumeClaimTemplate = disk("y", "1Gi") })
	w.boot(other)
}

// More data for cloud-init than a ConfigMap holds is reported with its field; a running
// VM keeps running.
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
	w.allWell("web")
}

// A service that was edited by hand is set back.
func TestServiceIsSetBack(t *testing.T) {
	t.Parallel()
	w := begin(t)
	service := w.exposed("web")
	service.Labels["a"], service.Labels["mine"] = "c", "stays"
	service.Spec.Selector[objects.LabelInstance] = "another"
	service.Spec.Ports[0].Port = 1
	require.NoError(t, w.client.Update(t.Context(), service))
	eventually(w, "web", &corev1.Service{}, "it is set back", func(s *corev1.Service) bool {
		return s.Labels["a"] == "b" && s.Labels["mine"] == "stays" && s.Spec.Selector[objects.LabelInstance] == "web" &&
			len(s.Spec.Ports) == 1 && s.Spec.Ports[0].Port == 5900
	})
}

// Each new password is brought to the pod that runs, and the pod stays.
func TestPasswordChangesAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	pod := w.boot("web")
	w.nextSecond(pod)
	for i := range 4 {
		secret, _ := get(w, "web-display-secret", &corev1.Secret{})
		secret.Data[objects.PasswordKey] = []byte(fmt.Sprint("secret", i))
		require.NoError(t, w.client.Update(t.Context(), secret))
		now := eventually(w, pod.Name, &corev1.Pod{}, "the kubelet knows", func(p *corev1.Pod) bool {
			return p.Annotations[objects.AnnotationPasswordVersion] == secret.ResourceVersion
		})
		require.Equal(t, pod.UID, now.UID)
	}
	secret, _ := get(w, "web-display-secret", &corev1.Secret{})
	require.Equal(t, "secret3", string(secret.Data[objects.PasswordKey]), "it was not set back")
}

// CPUs and memory that a VM can't have while it runs reach its configuration, where
// the runner finds what waits for a restart, and its next pod; this one stays.
func TestSizesOfARunningVM(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.MaximumCPUs, vm.Spec.VM.CPUTopology = nil, &v1.CPUTopology{Sockets: 1, CoresPerDie: 2}
		vm.Spec.VM.MaximumRAM, vm.Spec.VM.CurrentRAM = new(resource.MustParse("4Gi")), new(resource.MustParse("3Gi"))
	})
	pod := w.boot("web")
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	vm.Spec.VM.MaximumRAM = new(resource.MustParse("2Gi"))
	require.ErrorContains(t, w.client.Update(t.Context(), vm),
		"spec.vm.currentRam: Invalid value: must be at most maximumRam")
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.CPUTopology.Sockets = 4
		vm.Spec.VM.MaximumRAM, vm.Spec.VM.CurrentRAM = new(resource.MustParse("2Gi")), nil
	})
	eventually(w, "web", &corev1.ConfigMap{}, "the runner's", func(c *corev1.ConfigMap) bool {
		text := c.Data[objects.ConfigKey]
		return strings.Contains(text, "sockets: 4\n") && strings.Contains(text, "maximumRam: 2 GiB\n") &&
			!strings.Contains(text, "currentRam")
	})
	eventually(w, "web", &appsv1.StatefulSet{}, "the next pod's", func(s *appsv1.StatefulSet) bool {
		requests := s.Spec.Template.Spec.Containers[0].Resources.Requests
		return requests.Cpu().String() == "4" && requests.Memory().Value() < 2<<30
	})
	same, _ := get(w, pod.Name, &corev1.Pod{})
	require.Equal(t, pod.UID, same.UID)
	require.Nil(t, same.DeletionTimestamp)
}
