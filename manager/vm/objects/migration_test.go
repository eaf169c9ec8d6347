package objects_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// During a migration, the stateful set has two pods and the second pod's template. The second pod waits for the guest
// on another node, with its own volume for the runner's data. Afterwards the set has only the second pod.
func TestAStatefulSetWhileAGuestMoves(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	require.NoError(t, yaml.Unmarshal([]byte(`
metadata: {name: web, namespace: vmop-demo}
spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - {matchExpressions: [{key: a, operator: Exists}]}
        - {matchExpressions: [{key: b, operator: Exists}]}
  vm:
    state: Running
    disks: [{volumeClaimTemplate: {metadata: {name: data}, spec: {accessModes: [ReadWriteMany]}}}]
`), vm))
	set := func() (replicas, start int32, pod *applycorev1.PodSpecApplyConfiguration, receives string) {
		claims, err := objects.Claims(vm, settings(), objects.Existing{})
		require.NoError(t, err)
		s, err := objects.StatefulSet(vm, settings(), claims, "", 1, false)
		require.NoError(t, err)
		if s.Spec.Ordinals != nil {
			start = *s.Spec.Ordinals.Start
		}
		return *s.Spec.Replicas, start, s.Spec.Template.Spec, s.Spec.Template.Annotations[objects.AnnotationReceives]
	}
	claim := func(pod *applycorev1.PodSpecApplyConfiguration, volume string) (names []string) {
		for _, v := range pod.Volumes {
			if *v.Name == volume {
				names = append(names, *v.PersistentVolumeClaim.ClaimName)
			}
		}
		return names
	}
	replicas, start, before, receives := set()
	require.Equal(t, []any{int32(1), int32(0), ""}, []any{replicas, start, receives})
	require.Equal(t, []string{"runner-data-web-0"}, claim(before, "runner-data"))

	vm.Status.Migration = &v1.Migration{
		OperationUID: "op", Stage: v1.MigrationPreparing, Source: v1.MigrationPod{NodeName: "n1"},
	}
	replicas, start, target, receives := set()
	require.Equal(t, []any{int32(2), int32(0), "op"}, []any{replicas, start, receives})
	require.Equal(t, []string{"runner-data-web-1"}, claim(target, "runner-data"))
	require.Equal(t, claim(before, "data-disk"), claim(target, "data-disk"))
	require.Equal(t, []string{"runner-data", "data-disk"}, objects.VolumeNames(vm), "the volumes of the guest")
	env := map[string]string{}
	for _, e := range target.Containers[0].Env {
		if e.Value != nil {
			env[*e.Name] = *e.Value
		}
	}
	require.Equal(t, "op", env["RECEIVE_MIGRATION"])
	terms := target.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	require.Len(t, terms, 2)
	for _, term := range terms {
		require.Len(t, term.MatchExpressions, 1)
		require.Equal(t, corev1.NodeSelectorOpNotIn, *term.MatchFields[0].Operator)
		require.Equal(t, []string{"n1"}, term.MatchFields[0].Values)
	}

	vm.Spec.VM.Disks[0].VolumeClaimTemplate.Spec.AccessModes = nil
	vm.Status.Migration.NodeSelector = map[string]string{"kubernetes.io/hostname": "n1"}
	_, _, target, _ = set()
	require.Equal(t, vm.Status.Migration.NodeSelector, target.NodeSelector)
	terms = target.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	require.Equal(t, corev1.NodeSelectorOpIn, *terms[0].MatchFields[0].Operator, "other nodes can't use the disk")

	vm.Status.Migration.Stage, vm.Status.PodOrdinal = v1.MigrationCompleted, 1
	replicas, start, after, receives := set()
	require.Equal(t, []any{int32(1), int32(1), ""}, []any{replicas, start, receives})
	require.Equal(t, []string{"runner-data-web-1"}, claim(after, "runner-data"))
	require.Nil(t, after.NodeSelector)
}

// OneNode reports what keeps a VM's guest on its node.
func TestOneNode(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	require.Empty(t, objects.OneNode(vm, false))
	vm.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "data"}}
	const why = "spec.blockDeviceRefs[0]: the VirtualDisk data doesn't have the access mode ReadWriteMany: other " +
		"nodes can't use it at the same time"
	require.Equal(t, why, objects.OneNode(vm, false), "as long as it isn't known")
	vm.Status.BlockDeviceRefs = []v1.BlockDeviceStatusRef{
		{Kind: v1.KindVirtualImage, Name: "data", AccessMode: corev1.ReadWriteMany},
		{Kind: v1.KindVirtualDisk, Name: "data", AccessMode: corev1.ReadWriteOnce},
	}
	require.Equal(t, why, objects.OneNode(vm, false))
	vm.Status.BlockDeviceRefs[1].AccessMode = corev1.ReadWriteMany
	require.Empty(t, objects.OneNode(vm, false))
	vm.Spec.NodeName = "n1"
	require.Equal(t, "spec.nodeName names it", objects.OneNode(vm, false))
}

// Copied disks let a guest leave its node; images don't.
func TestCopiesOfDisks(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Status.NodeName = "n1"
	vm.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{
		{Kind: v1.KindVirtualDisk, Name: "shared"}, {Kind: v1.KindVirtualDisk, Name: "own"},
	}
	vm.Status.BlockDeviceRefs = []v1.BlockDeviceStatusRef{
		{Kind: v1.KindVirtualDisk, Name: "shared", AccessMode: corev1.ReadWriteMany},
		{Kind: v1.KindVirtualDisk, Name: "own", AccessMode: corev1.ReadWriteOnce},
	}
	require.Equal(t, []string{"own"}, objects.LocalDisks(vm))
	require.NotEmpty(t, objects.OneNode(vm, false))
	require.Empty(t, objects.OneNode(vm, true))
	vm.Spec.BlockDeviceRefs = append(vm.Spec.BlockDeviceRefs, v1.BlockDeviceRef{Kind: v1.KindVirtualImage, Name: "cd"})
	require.Contains(t, objects.OneNode(vm, true), "the VirtualImage cd doesn't have the access mode ReadWriteMany")

	here := &v1.MigrateOptions{NodeSelector: map[string]string{corev1.LabelHostname: "n1"}}
	require.False(t, objects.CopiesDisks(vm, nil))
	require.True(t, objects.CopiesDisks(vm, &v1.MigrateOptions{CopyDisks: true}))
	vm.Spec.Migration = &v1.MigrationPolicy{CopyDisks: true}
	require.True(t, objects.CopiesDisks(vm, nil))
	require.True(t, objects.CopiesDisks(vm, &v1.MigrateOptions{}))
	require.False(t, objects.CopiesDisks(vm, here), "both pods can have them")
	here.CopyDisks = true
	require.True(t, objects.CopiesDisks(vm, here), "it is asked for")
}

// A VM with a tap never migrates to another pod on the same node, because two pods can't have its tap there.
func TestTapsAreOfANode(t *testing.T) {
	t.Parallel()
	image := []v1.RestartAwaitingChange{{Path: "image.source"}}
	vm := &v1.VirtualMachine{}
	how, why := objects.Update(vm, image, "node1")
	require.Equal(t, &v1.MigrateOptions{NodeSelector: map[string]string{"kubernetes.io/hostname": "node1"}}, how, why)
	vm.Spec.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}}
	how, why = objects.Update(vm, image, "node1")
	require.Equal(t, &v1.MigrateOptions{}, how, why)
	vm.Spec.NodeName = "node1"
	how, why = objects.Update(vm, image, "node1")
	require.Nil(t, how)
	require.Equal(t, "it has a tap, which two of its pods can't have on one node, and can't leave that: spec.nodeName names it", why)
	require.Equal(t, why, objects.Unmovable(vm, false))
	_, why = objects.Update(vm, append(image, v1.RestartAwaitingChange{Path: "vm.firmware"}), "node1")
	require.Equal(t, "vm.firmware takes a restart", why)
}
