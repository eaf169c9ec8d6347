package vm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

func (w *world) secret(name string, of corev1.SecretType, data map[string]string) {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Name}, Type: of, StringData: data,
	})
}

func provisioned(by v1.Provisioning) func(*v1.VirtualMachine) {
	return func(vm *v1.VirtualMachine) { vm.Spec.Provisioning = &by }
}

// A Secret that is missing, or of another type, keeps a VM from starting until there is one; what is in it gets to the
// runner as files of the pod, and nowhere else.
func TestSecretsOfGuests(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry-of-the-guest"
	w := begin(t)
	w.secret("script", corev1.SecretTypeOpaque, map[string]string{"userData": canary}) // anything of the namespace
	ref := &v1.SecretRef{Kind: "Secret", Name: "script"}
	w.vm("web", provisioned(v1.Provisioning{Type: v1.ProvisioningUserDataRef, UserDataRef: ref}))
	vm := w.phase("web", v1.PhasePending, decide.ReasonSecretMissing)
	require.Equal(t, "there is no spec.provisioning.userDataRef: Secret script of the type "+
		"provisioning.virtualization.deckhouse.io/cloud-init with the key userData; the VM starts when it is created (the "+
		"type of a Secret can't be changed: one of another type has to be deleted first)", vm.Status.Message)
	_, is := get(w, "web-0", &corev1.Pod{})
	require.False(t, is)

	opaque, _ := get(w, "script", &corev1.Secret{})
	require.NoError(t, w.client.Delete(t.Context(), opaque))
	w.secret("script", v1.SecretTypeCloudInit, map[string]string{"userData": canary})
	pod := w.pod("web")
	at := pod.Spec.Volumes[0].Projected.Sources
	var mounted *corev1.SecretProjection
	for _, source := range at {
		if source.Secret != nil && source.Secret.Name == "script" {
			mounted = source.Secret
		}
	}
	require.Equal(t, []corev1.KeyToPath{{Key: "userData", Path: "cloud-init/user-data"}}, mounted.Items)
	files, _ := get(w, "web", &corev1.ConfigMap{})
	require.Contains(t, files.Data[objects.ConfigKey], "userDataFile: cloud-init/user-data")

	w.boot("web")
	w.phase("web", v1.PhaseRunning, "")
	secret, _ := get(w, "script", &corev1.Secret{})
	time.Sleep(time.Until(pod.CreationTimestamp.Add(1100 * time.Millisecond))) // the API server counts in seconds
	secret.StringData = map[string]string{"userData": canary + "2"}
	require.NoError(t, w.client.Update(t.Context(), secret))
	eventually(w, "web-0", &corev1.Pod{}, "its kubelet updates the files", func(p *corev1.Pod) bool {
		return p.Annotations[objects.AnnotationDataVersion] == secret.ResourceVersion
	})
	require.NoError(t, w.client.Delete(t.Context(), secret)) // a VM that runs continues
	vm = eventually(w, "web", &v1.VirtualMachine{}, "it is reported", func(vm *v1.VirtualMachine) bool {
		c := condition(vm, v1.ConditionReconciled)
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "no spec.provisioning")
	})
	require.Equal(t, v1.PhaseRunning, vm.Status.Phase)

	for _, list := range []client.ObjectList{
		&v1.VirtualMachineList{}, &corev1.PodList{}, &corev1.ConfigMapList{}, &appsv1.StatefulSetList{},
		&eventsv1.EventList{},
	} {
		require.NoError(t, w.client.List(t.Context(), list, client.InNamespace(w.Name)))
		text, err := yaml.Marshal(list)
		require.NoError(t, err)
		require.NotContains(t, string(text), canary, fmt.Sprintf("%T", list))
	}
	require.NotContains(t, w.log.String(), canary)
}
