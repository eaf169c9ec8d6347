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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
	"vmop/test/wait"
	"vmop/vmstatus"
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
		c := meta.FindStatusCondition(vm.Status.Conditions, v1.ConditionReconciled)
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

// A VM that is deleted without what it has leaves its guest running, and the pod keeps the files of the Secret from
// which the guest configured itself. A VM of the same name takes all of it over, and the Secret stays the user's.
func TestOrphanKeepsItsSecret(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.secret("script", v1.SecretTypeCloudInit, map[string]string{"userData": "#!/bin/sh\n"})
	ref := &v1.SecretRef{Kind: "Secret", Name: "script"}
	scripted := provisioned(v1.Provisioning{Type: v1.ProvisioningUserDataRef, UserDataRef: ref})
	vm := w.vm("web", scripted)
	pod := w.boot("web")
	orphan := metav1.DeletePropagationOrphan
	require.NoError(t, w.client.Delete(t.Context(), vm, &client.DeleteOptions{PropagationPolicy: &orphan}))
	wait.Until(t, func() bool { _, is := get(w, "web", &v1.VirtualMachine{}); return !is })
	eventually(w, "web", &appsv1.StatefulSet{}, "it has no owner", func(s *appsv1.StatefulSet) bool {
		return len(s.OwnerReferences) == 0
	})

	again := w.vm("web", scripted)
	w.say("web", pod, stateBooted, nil)
	w.phase("web", v1.PhaseRunning, "")
	set := eventually(w, "web", &appsv1.StatefulSet{}, "it is the new one's", func(s *appsv1.StatefulSet) bool {
		return metav1.GetControllerOf(s) != nil && metav1.GetControllerOf(s).UID == again.UID
	})
	require.Equal(t, pod.Spec.Volumes[0].Projected.Sources, set.Spec.Template.Spec.Volumes[0].Projected.Sources)
	same, is := get(w, "web-0", &corev1.Pod{})
	require.True(t, is)
	require.Equal(t, pod.UID, same.UID)
	require.Nil(t, same.DeletionTimestamp)
	secret, is := get(w, "script", &corev1.Secret{})
	require.True(t, is)
	require.Empty(t, secret.OwnerReferences)
}

// A runner that misses a key says so in the words of the resource, and the VM is started as soon as the Secret has it.
func TestKeyMissing(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.secret("answers", v1.SecretTypeSysprep, map[string]string{"wrong.xml": "<unattend/>"})
	ref := &v1.SecretRef{Kind: "Secret", Name: "answers"}
	w.vm("win", provisioned(v1.Provisioning{Type: v1.ProvisioningSysprepRef, SysprepRef: ref}))
	first := w.pod("win")
	w.nextSecond(first) // a Secret of the second in which the runner ended could be newer than what it read
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", StartedAt: metav1.Now(), FinishedAt: metav1.Now(),
		Message: fmt.Sprintf(`{"cause": %q, "reason": %q, "exitCode": 1, "message": "neither"}`, vmstatus.CauseStart,
			vmstatus.ReasonDataMissing),
	}}}
	vm := eventually(w, "win", &v1.VirtualMachine{}, "the runner's words", func(vm *v1.VirtualMachine) bool {
		w.bind(first)
		w.report(first, ended) // again, as long as the cluster's own scheduler says that there's no node for the pod
		return vm.Status.Phase == v1.PhaseFailed && vm.Status.Reason == decide.ReasonSecretKey
	})
	require.Contains(t, vm.Status.Message, "want spec.provisioning.sysprepRef: Secret answers of the type "+
		"provisioning.virtualization.deckhouse.io/sysprep with the key unattend.xml or autounattend.xml; neither")
	w.remove(first)
	time.Sleep(1100 * time.Millisecond)
	w.look()
	eventually(w, "win", &v1.VirtualMachine{}, "the runner's words stay", func(vm *v1.VirtualMachine) bool {
		if next, is := get(w, "win-0", &corev1.Pod{}); is && next.UID != first.UID { // this took long
			w.bind(next)
			w.report(next, ended)
		}
		return vm.Status.Phase == v1.PhaseFailed && vm.Status.Reason == decide.ReasonSecretKey
	})

	secret, _ := get(w, "answers", &corev1.Secret{})
	secret.StringData = map[string]string{"unattend.xml": "<unattend/>"}
	require.NoError(t, w.client.Update(t.Context(), secret))
	second := w.pod("win")
	require.NotEqual(t, first.UID, second.UID, "without the delay after a failure")
}

// userData has no type by which the API server could refuse this.
func TestUserDataTwice(t *testing.T) {
	t.Parallel()
	w := begin(t)
	from := &v1.DataSource{SecretKeyRef: v1.SecretKeyRef{Name: "script", Key: "any"}}
	w.secret("script", v1.SecretTypeCloudInit, map[string]string{"any": "x"})
	w.vm("web", func(vm *v1.VirtualMachine) {
		vm.Spec.CloudInit = &v1.CloudInit{UserDataFrom: from}
		require.NoError(t, yaml.Unmarshal([]byte(`{"a": 1}`), &vm.Spec.CloudInit.UserData))
	})
	vm := w.phase("web", v1.PhaseFailed, decide.ReasonRefused)
	require.Equal(t, "spec.cloudInit.userDataFrom: userData is given as well: leave one of the two out", vm.Status.Message)
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.CloudInit.UserData = nil })
	w.pod("web")
}
