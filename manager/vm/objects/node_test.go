package objects_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/test/cluster"
)

// works is a shell version of a runner's first actions: it creates private files in its directories, and taps for the
// networks that use them.
const works = `set -e
test "$POD_NAME" = test-vm-0
mkdir -m 700 /run/vmrunner/test-vm
echo x >/var/local/vm-data/uuid.txt
cat /etc/opt/vmrunner/config.yaml >/dev/null
! echo x >/etc/x 2>/dev/null
case $NETWORK in
user) test "$(id -u)" = 65532 ;;
tap | masquerade) tunctl -t vmtest$$; ip link set vmtest$$ up; tunctl -d vmtest$$ ;;
esac
echo works >/dev/termination-log`

// rights proves on a real node that a pod's rights are enough for their purpose.
func (s *server) rights(t *testing.T) {
	for kind, network := range networkSpecs() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s.kubectl(t, "create", "namespace", kind)
			s.kubectl(t, "-n", kind, "create", "serviceaccount", "vm-runner")
			vm := sample(t, func(vm *v1.VirtualMachine) {
				vm.Namespace, vm.Spec.VM.Accelerator = kind, "tcg"
				vm.Spec.VM.Networks, vm.Spec.VM.Disks = []v1.Network{network}, nil
				vm.Spec.Image = &v1.Image{Source: cluster.BusyboxImage}
				vm.Spec.Resources = &v1.Resources{}
			})
			s.kubectl(t, "-n", kind, "create", "configmap", vm.Name, "--from-literal=config.yaml=")
			pod := podOf(t, vm, settings())
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", works}
			pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "NETWORK", Value: kind})
			for i := range pod.Spec.Volumes {
				if pod.Spec.Volumes[i].PersistentVolumeClaim != nil { // this node has no storage
					pod.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
				}
			}
			s.apply(t, pod)
			if _, err := s.Kubectl(t.Context(), "-n", kind, "wait", "--for=jsonpath={.status.phase}=Succeeded",
				"pod/"+pod.Name, "--timeout=180s"); err != nil {
				log, _ := s.Kubectl(t.Context(), "-n", kind, "logs", pod.Name)
				require.NoError(t, err, "%s", log)
			}
		})
	}
}

// networkSpecs returns one network of each kind.
func networkSpecs() map[string]v1.Network {
	return map[string]v1.Network{
		"user":       {User: &v1.UserNetwork{}},
		"tap":        {Tap: &v1.Tap{}},
		"masquerade": {Masquerade: &v1.PrivateNetwork{}},
	}
}

// podOf returns the pod that a StatefulSet would create.
func podOf(t *testing.T, vm *v1.VirtualMachine, settings objects.Settings) *corev1.Pod {
	t.Helper()
	text, err := json.Marshal(statefulSet(t, vm, settings, "secret"))
	require.NoError(t, err)
	var set appsv1.StatefulSet
	require.NoError(t, json.Unmarshal(text, &set))
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec,
	}
	pod.Name, pod.Namespace = vm.Name+"-0", vm.Namespace
	return pod
}
