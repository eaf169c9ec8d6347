package objects_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// Affinity terms for VMs become terms for pods and follow the VM's own pod terms.
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

// A running pod shows pending affinity changes under the VM's own field names.
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

// A pod requires a node with the guest's architecture in addition to the definition's requirements, except for an
// emulated VM that names the architecture label, and for a VM that names its node.
func TestArchitectureOfNodes(t *testing.T) {
	t.Parallel()
	arm := `[{key: kubernetes.io/arch, operator: In, values: [arm64]}]`
	only := `{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
		{matchExpressions: ` + arm + `}]}}}`
	names := `{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
		{matchExpressions: [{key: kubernetes.io/arch, operator: Exists}]}]}}}`
	for name, row := range map[string]struct{ spec, want string }{
		"KVM if there is":   {`{}`, only},
		"emulated":          {`{vm: {accelerator: tcg}}`, only},
		"emulated anywhere": {`{vm: {accelerator: tcg}, affinity: ` + names + `}`, names},
		"emulated there":    {`{vm: {accelerator: tcg}, nodeSelector: {kubernetes.io/arch: amd64}}`, `null`},
		"on a node":         {`{nodeName: node1}`, `null`},
		"KVM, contradicted": {
			`{vm: {accelerator: kvm}, nodeSelector: {kubernetes.io/arch: amd64}}`,
			only,
		},
		"beside others": {
			`{affinity: {podAffinity: {}, nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
				{matchExpressions: [{key: a, operator: Exists}]}, {}, {matchFields: [{key: metadata.name, operator: In, values: [b]}]}]}}}}`,
			`{podAffinity: {}, nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
				{matchExpressions: [{key: a, operator: Exists}, {key: kubernetes.io/arch, operator: In, values: [arm64]}]}, {},
				{matchFields: [{key: metadata.name, operator: In, values: [b]}], matchExpressions: ` + arm + `}]}}}`,
		},
		"beside a preference": {
			`{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}}`,
			`{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: ` + arm + `}]},
				preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}`,
		},
	} {
		vm := sample(t, func(vm *v1.VirtualMachine) {
			var spec v1.VirtualMachineSpec
			require.NoError(t, yaml.UnmarshalStrict([]byte(row.spec), &spec), name)
			vm.Spec.Affinity, vm.Spec.NodeName, vm.Spec.NodeSelector = spec.Affinity, spec.NodeName, spec.NodeSelector
			vm.Spec.VM.Accelerator = spec.VM.Accelerator
		})
		before := vm.DeepCopy()
		placed := objects.ForArchitecture(vm, "arm64")
		got, err := yaml.Marshal(statefulSet(t, placed, settings(), "").Spec.Template.Spec.Affinity)
		require.NoError(t, err)
		require.YAMLEq(t, row.want, string(got), name)
		got, err = yaml.Marshal(objects.PlaceOf(placed).Affinity)
		require.NoError(t, err)
		require.YAMLEq(t, row.want, string(got), "%s: of what makes its disks", name)
		require.Equal(t, before, vm, "the definition is as it was")
		require.Empty(t, objects.PodChanges(pod(t, vm), statefulSet(t, placed, settings(), "secret")),
			"%s: a VM that runs is where it can", name)
	}
}
