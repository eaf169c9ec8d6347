package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// A user's own image runs only in an unprivileged pod. If the definition of a running VM changes to need more rights,
// the pod stays unchanged, and once it is deleted, no other pod starts without the administrator's permission.
func TestNotTrusted(t *testing.T) {
	t.Parallel()
	w := begin(t)
	privileged := func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Accelerator, vm.Spec.Image = "", &v1.Image{Source: "evil.example/x"}
	}
	w.vm("new", privileged)
	vm := w.phase("new", v1.PhaseFailed, decide.ReasonNotTrusted)
	require.Contains(t, vm.Status.Message, "spec.image: evil.example/x is not a trusted image, and the VM's pod gets privileged for spec.vm.accelerator (auto)")
	status, message := reconciled(vm)
	require.Equal(t, metav1.ConditionFalse, status)
	require.Contains(t, message, "trustedImages in the manager's configuration")
	set := w.replicas("new", 0)
	require.NotEmpty(t, set.Spec.Template.Spec.SchedulingGates, "nor if it is scaled by hand")
	w.edit("new", func(vm *v1.VirtualMachine) { vm.Spec.VM.Accelerator = "tcg" })
	require.Equal(t, "evil.example/x", w.boot("new").Spec.Containers[0].Image)

	w.vm("old", func(vm *v1.VirtualMachine) { vm.Spec.NodeName = node }) // the scheduler doesn't use this node
	first := w.pod("old")
	w.report(first, runningSince(first.CreationTimestamp.Time))
	w.say("old", first, stateBooted, nil)
	w.phase("old", v1.PhaseRunning, "")
	configuration, _ := get(w, "old", &corev1.ConfigMap{})
	w.edit("old", privileged)
	eventually(w, "old", &v1.VirtualMachine{}, "it runs on as it was", func(vm *v1.VirtualMachine) bool {
		status, _ := reconciled(vm)
		return status == metav1.ConditionFalse && vm.Status.Phase == v1.PhaseRunning &&
			vm.Status.ObservedGeneration == vm.Generation
	})
	unchanged, _ := get(w, "old", &corev1.ConfigMap{})
	require.Equal(t, configuration.Data, unchanged.Data)
	require.NoError(t, w.client.Delete(t.Context(), first))
	w.gone("old", first)
	w.phase("old", v1.PhaseFailed, decide.ReasonNotTrusted)
	absent(w, "old-0", &corev1.Pod{})
	w.set(func(s *objects.Settings) { s.Trust.Images = []objects.ImagePattern{"evil.example/*"} })
	last := w.pod("old")
	require.True(t, *last.Spec.Containers[0].SecurityContext.Privileged)
	require.Equal(t, "evil.example/x", last.Spec.Containers[0].Image)
	require.Empty(t, last.Spec.SchedulingGates)
}

// A volume is marked with the untrusted image that may have written to it, before this image runs.
func TestUntrustedVolume(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("web")
	w.boot("web")
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Spec.Image = &v1.Image{Source: "evil.example/x"}
		vm.Spec.VM.Disks[0].VolumeClaimTemplate = disk("system", "2Gi") // refused for an unbound claim
	})
	claim := eventually(w, "runner-data-web-0", &corev1.PersistentVolumeClaim{}, "it is marked",
		func(c *corev1.PersistentVolumeClaim) bool {
			return c.Annotations[objects.AnnotationUntrusted] == "the image evil.example/x"
		})
	w.edit("web", stopped)
	w.gone("web", w.podThatGoes("web"))
	w.phase("web", v1.PhaseStopped, decide.ReasonStopped)
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Spec.Image, vm.Spec.VM.Accelerator, vm.Spec.VM.State = nil, "kvm", v1.Running
	})
	vm := w.phase("web", v1.PhaseFailed, decide.ReasonNotTrusted)
	require.Contains(t, vm.Status.Message, "the files in the volume of claim runner-data-web-0 are not trusted, because of the image evil.example/x")
	claim, _ = get(w, claim.Name, claim)
	delete(claim.Annotations, objects.AnnotationUntrusted)
	require.NoError(t, w.client.Update(t.Context(), claim))
	w.look()
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Labels = map[string]string{"seen": "1"} })
	require.Contains(t, w.phase("web", v1.PhaseFailed, decide.ReasonNotTrusted).Status.Message,
		"because of the image evil.example/x", "who may write claims can't take it back")
	w.set(func(s *objects.Settings) { s.Trust.Claims = []string{claim.Name} })
	w.boot("web")
}

// privileged gives a VM's pod more rights than "restricted".
func privileged(vm *v1.VirtualMachine) { vm.Spec.VM.Accelerator = "kvm" }

// volume returns the entry for the runner data's claim in a VM's status.
func volume(vm *v1.VirtualMachine) v1.Volume {
	i := slices.IndexFunc(vm.Status.Volumes, func(v v1.Volume) bool { return v.Claim == "runner-data-"+vm.Name+"-0" })
	if i < 0 {
		return v1.Volume{}
	}
	return vm.Status.Volumes[i]
}

// A claim that a user has prepared is never mounted in a pod with more rights, even if it has the manager's labels and
// annotations and the VM as its owner. Other pods can mount it.
func TestPreparedClaim(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.vm("first", privileged)
	w.boot("first")
	prepare := func(vm string, owners ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
		claim, _ := get(w, "runner-data-first-0", &corev1.PersistentVolumeClaim{})
		claim.ObjectMeta = metav1.ObjectMeta{
			Name: "runner-data-" + vm + "-0", Namespace: w.Name, Annotations: claim.Annotations,
			Labels: claim.Labels, OwnerReferences: owners,
		}
		claim.Labels[objects.LabelInstance] = vm
		claim.Annotations[objects.AnnotationToken] = "guessed"
		w.create(claim)
		return claim
	}
	prepared := prepare("web")
	w.vm("web", privileged)
	vm := w.phase("web", v1.PhaseFailed, decide.ReasonNotTrusted)
	require.Contains(t, vm.Status.Message, "the files in the volume of claim runner-data-web-0 are not trusted, "+
		"because of its origin: the claim was not created for this VM")
	require.Contains(t, vm.Status.Message, "add the claim to trustedClaims in the manager's configuration")
	prepared, _ = get(w, prepared.Name, prepared)
	prepared.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.GroupVersion().String(), Kind: "VirtualMachine", Name: "web", UID: vm.UID, Controller: new(true),
	}}
	require.NoError(t, w.client.Update(t.Context(), prepared))
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.MaximumCPUs = new(int32(3)) })
	eventually(w, "web", &v1.VirtualMachine{}, "it is as before", func(vm *v1.VirtualMachine) bool {
		return vm.Status.ObservedGeneration == vm.Generation && vm.Status.Reason == decide.ReasonNotTrusted
	})
	w.set(func(s *objects.Settings) { s.Trust.Claims = []string{"runner-data-web-0"} })
	w.boot("web")

	prepare("plain")
	w.vm("plain")
	w.boot("plain")
}

// Claims that an earlier manager version created without records still belong to their VMs.
func TestClaimsOfAnEarlierManager(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := w.manage(nil)
	w.vm("web", privileged)
	pod := w.boot("web")
	claim, _ := get(w, "runner-data-web-0", &corev1.PersistentVolumeClaim{})
	recorded := func(vm *v1.VirtualMachine) bool { return volume(vm).UID == string(claim.UID) }
	eventually(w, "web", &v1.VirtualMachine{}, "its claim is recorded", recorded)
	end()
	vm, _ := get(w, "web", &v1.VirtualMachine{})
	require.NoError(t, w.client.Status().Patch(t.Context(), vm,
		client.RawPatch(types.MergePatchType, []byte(`{"status": {"volumes": null}}`))))
	delete(claim.Annotations, objects.AnnotationToken)
	require.NoError(t, w.client.Update(t.Context(), claim))
	w.manage(nil)
	eventually(w, "web", &v1.VirtualMachine{}, "its claim is recorded again", recorded)
	require.NoError(t, w.client.Delete(t.Context(), pod.DeepCopy()))
	w.gone("web", pod)
	w.boot("web")
}

// If a manager is killed between creating and recording a claim, the next manager recognizes the claim.
func TestManagerEndsBeforeItHasNotedAClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := w.manage(nil)
	w.vm("web", privileged, stopped)
	eventually(w, "web", &v1.VirtualMachine{}, "its claim is recorded", func(vm *v1.VirtualMachine) bool {
		return volume(vm).UID != "" && !strings.Contains(volume(vm).UID, ":")
	})
	end()
	claim, _ := get(w, "runner-data-web-0", &corev1.PersistentVolumeClaim{})
	sum := sha256.Sum256([]byte(claim.Annotations[objects.AnnotationToken]))
	announced := "creating:" + hex.EncodeToString(sum[:])
	note := func(uid string) {
		vm, _ := get(w, "web", &v1.VirtualMachine{})
		text := fmt.Sprintf(`{"status": {"volumes": [{"claim": %q, "uid": %q, "untrusted": ""}]}}`, claim.Name, uid)
		patch := client.RawPatch(types.MergePatchType, []byte(text))
		require.NoError(t, w.client.Status().Patch(t.Context(), vm, patch))
		record := &corev1.ConfigMap{}
		record.Name, record.Namespace = objects.ClaimRecordName(claim.Name), w.Name
		require.NoError(t, client.IgnoreNotFound(w.client.Delete(t.Context(), record)))
	}
	note(announced)
	w.edit("web", running)
	end = w.manage(nil)
	w.boot("web")
	end()

	note("creating:" + strings.Repeat("0", 64))
	w.edit("web", func(vm *v1.VirtualMachine) { vm.Spec.VM.MaximumCPUs = new(int32(3)) })
	w.manage(nil)
	w.told("web", "its origin: the claim was not created for this VM")
}

// podThatGoes waits for a VM's pod that is being deleted.
func (w *world) podThatGoes(name string) *corev1.Pod {
	w.t.Helper()
	return eventually(w, name+"-0", &corev1.Pod{}, "it goes", func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil
	})
}

// A claim that doesn't belong to the VM is never mounted, not even if a running VM gets a disk of that name; labels can
// declare it as the VM's.
func TestSomebodyElsesClaim(t *testing.T) {
	t.Parallel()
	w := begin(t)
	theirs := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "more-disk-web-0", Namespace: w.Name, Labels: map[string]string{
			objects.LabelInstance: "web",
			objects.LabelName:     "postgresql",
		},
	}}
	theirs.Spec.AccessModes, theirs.Spec.VolumeMode = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		new(corev1.PersistentVolumeBlock)
	theirs.Spec.Resources.Requests = disk("more", "1Gi").Spec.Resources.Requests
	w.create(theirs)
	w.vm("web")
	pod := w.boot("web")
	w.edit("web", func(vm *v1.VirtualMachine) {
		vm.Spec.VM.Disks = append(vm.Spec.VM.Disks, v1.Disk{VolumeClaimTemplate: disk("more", "1Gi")})
	})
	eventually(w, "web", &v1.VirtualMachine{}, "it is reported", func(vm *v1.VirtualMachine) bool {
		_, message := reconciled(vm)
		return message == "spec.vm.disks[1].volumeClaimTemplate: the claim more-disk-web-0 does not have this VM's labels; "+
			"give the disk another name or, to let the VM use its data, add the labels "+
			"(kubectl label --overwrite pvc more-disk-web-0 app.kubernetes.io/name=vm-runner app.kubernetes.io/instance=web)"
	})
	eventually(w, "web", &appsv1.StatefulSet{}, "no pod starts with it", func(s *appsv1.StatefulSet) bool {
		return len(s.Spec.Template.Spec.SchedulingGates) > 0
	})
	require.NoError(t, w.client.Delete(t.Context(), pod))
	w.gone("web", pod)
	w.phase("web", v1.PhaseFailed, decide.ReasonClaim)
	have, _ := get(w, theirs.Name, &corev1.PersistentVolumeClaim{})
	require.Equal(t, theirs.ResourceVersion, have.ResourceVersion, "it is not touched")
	have.Labels[objects.LabelName] = objects.AppName
	require.NoError(t, w.client.Update(t.Context(), have))
	w.boot("web")
}
