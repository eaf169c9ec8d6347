package objects_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// Terms of VMs and pods are those of pods, after the ones that the VM has for pods.
func TestAffinityOfVMs(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ of, want string }{
		"as the VM has it": {
			`{nodeAffinity: {}, podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}`,
			`{nodeAffinity: {}, podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}`,
		},
		"required": {
			`{virtualMachineAndPodAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a,
			  labelSelector: {matchLabels: {b: c}}, namespaces: [d], namespaceSelector: {}, matchLabelKeys: [e]}]}}`,
			`{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a,
			  labelSelector: {matchLabels: {b: c}}, namespaces: [d], namespaceSelector: {}, matchLabelKeys: [e]}]}}`,
		},
		"preferred": {
			`{virtualMachineAndPodAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
			  {weight: 7, virtualMachineAndPodAffinityTerm: {topologyKey: a}}]}}`,
			`{podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
			  {weight: 7, podAffinityTerm: {topologyKey: a}}]}}`,
		},
		"both kinds": {
			`{podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}],
			  preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: b}}]},
			  virtualMachineAndPodAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: c}],
			  preferredDuringSchedulingIgnoredDuringExecution:
			  [{weight: 2, virtualMachineAndPodAffinityTerm: {topologyKey: d}}]}}`,
			`{podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}, {topologyKey: c}],
			  preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: b}},
			  {weight: 2, podAffinityTerm: {topologyKey: d}}]}}`,
		},
		"nothing": {`{virtualMachineAndPodAffinity: {}}`, `{podAffinity: {}}`},
	} {
		vm := sample(t, func(vm *v1.VirtualMachine) {
			require.NoError(t, yaml.UnmarshalStrict([]byte(row.of), &vm.Spec.Affinity), name)
		})
		before := vm.DeepCopy()
		got, err := yaml.Marshal(statefulSet(t, vm, settings(), "").Spec.Template.Spec.Affinity)
		require.NoError(t, err)
		require.YAMLEq(t, row.want, string(got), name)
		require.Equal(t, before, vm, "the definition is as it was")
	}
}

// A pod that runs is shown in the VM's own words what awaits its restart.
func TestAffinityOfVMsAwaitsARestart(t *testing.T) {
	t.Parallel()
	running := pod(t, sample(t, nil))
	changed := sample(t, func(vm *v1.VirtualMachine) {
		vm.Spec.Affinity = &v1.Affinity{VirtualMachineAndPodAffinity: &v1.VirtualMachineAndPodAffinity{}}
	})
	require.Equal(t, []v1.RestartAwaitingChange{{
		Path: "affinity", Operation: "add", DesiredValue: raw(`{"virtualMachineAndPodAffinity":{}}`),
	}}, objects.PodChanges(running, statefulSet(t, changed, settings(), "secret")))
}
