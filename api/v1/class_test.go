package v1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
)

// aClass uses every kind of rule.
const aClass = `
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachineClass
metadata: {name: web, annotations: {vmoperator.jdrupes.org/is-default-class: "true"}}
spec:
  cpu: {type: Features, model: Nehalem, features: [aes, avx2]}
  nodeSelector:
    matchLabels: {disk: ssd}
    matchExpressions: [{key: zone, operator: In, values: [a, b]}, {key: cores, operator: Gt, values: ["4"]}, {key: x, operator: Exists}]
  tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}, {operator: Exists}]
  sizingPolicies:
  - cores: {min: 1, max: 4}
    memory: {min: 1Gi, max: 8Gi, step: 512Mi, perCore: {min: 512Mi, max: 4Gi}}
    coreFractions: [5%, 10%, 100%]
    defaultCoreFraction: 10%
    dedicatedCores: [true, false]
  - cores: {min: 6, max: 16, step: 2}
  vmType: {source: cloud}
  defaults:
    firmware: uefi
    useTpm: true
    networks: [{masquerade: {}}]
    display: {outputs: 2}
    options: {sound: true}
  lockedOptions: [sound, tag_2]
`

func TestClasses(t *testing.T) {
	t.Parallel()
	k := shared.Get(t)
	client, err := dynamic.NewForConfig(k.Config)
	require.NoError(t, err)
	classes := client.Resource(v1.GroupVersion().WithResource("virtualmachineclasses"))
	class := func(text string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(text), &object.Object))
		return object
	}
	object := class(aClass)
	patch(t, object, "{}")
	_, err = classes.Create(t.Context(), class(aClass), metav1.CreateOptions{FieldValidation: "Strict"})
	require.NoError(t, err)
	change := func(text string) error {
		_, err := classes.Patch(t.Context(), "web", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	err = change(`{"spec": {"cpu": {"features": ["avx2"]}}}`)
	require.ErrorContains(t, err, "spec.cpu: Invalid value: is immutable: the guests of this class count on it; make another class")
	require.NoError(t, change(`{"spec": {"vmType": {"source": "pc"}}}`))
	for _, resource := range []string{"virtualmachineclasses", "virtualmachineclass", "vmclass"} {
		table, err := k.Kubectl(t.Context(), "get", resource)
		require.NoError(t, err)
		require.Regexp(t, `^NAME +PHASE +ISDEFAULT +AGE\nweb +Pending +true +\d+s\n$`, table)
	}
	for name, row := range refusedClasses() {
		t.Run("refused: "+name, func(t *testing.T) {
			t.Parallel()
			object := class(aClass)
			object.SetName("bad-" + strings.ReplaceAll(strings.ToLower(name), " ", "-"))
			patch(t, object, row.patch)
			_, err := classes.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, row.want)
		})
	}
	for name, text := range map[string]string{
		"host":      `{spec: {cpu: {type: Host, model: null, features: null}}}`,
		"model":     `{spec: {cpu: {type: Model, features: null}, sizingPolicies: null, defaults: null}}`,
		"discovery": `{spec: {cpu: {type: Discovery, model: null, features: null, discovery: {nodeSelector: {matchLabels: {a: b}}}}}}`,
	} {
		object := class(aClass)
		object.SetName(name)
		patch(t, object, text)
		_, err := classes.Create(t.Context(), object, metav1.CreateOptions{FieldValidation: "Strict"})
		require.NoError(t, err, name)
	}
}

// refusedClasses returns classes that no VM could use.
func refusedClasses() map[string]refusal {
	policy := func(text string) string { return `{spec: {sizingPolicies: [` + text + `]}}` }
	return map[string]refusal{
		"no CPU":           {`{spec: {cpu: null}}`, "spec.cpu: Required value"},
		"type of CPU":      {`{spec: {cpu: {type: Fast}}}`, `spec.cpu.type: Unsupported value: "Fast"`},
		"model missing":    {`{spec: {cpu: {type: Model, model: null, features: null}}}`, "spec.cpu.model: Invalid value: the type Model needs one of QEMU's models"},
		"model with host":  {`{spec: {cpu: {type: Host, features: null}}}`, "spec.cpu.model: Invalid value: the type is Host: leave model out"},
		"model of options": {`{spec: {cpu: {model: "Nehalem,+avx2"}}}`, "must be the name of a CPU model, such as Skylake-Server; its features belong into features"},
		"no features": {
			`{spec: {cpu: {features: null}}}`,
			"spec.cpu.features: Invalid value: features, such as [avx2, aes], belong to the type Features, and it needs some",
		},
		"features of host": {`{spec: {cpu: {type: Host, model: null}}}`, "spec.cpu.features: Invalid value: features, such as"},
		"feature of sign": {
			`{spec: {cpu: {features: ["+avx2"]}}}`,
			`spec.cpu.features[0]: Invalid value: "+avx2": must be QEMU's name of a feature, such as avx2`,
		},
		"discovery": {
			`{spec: {cpu: {discovery: {}}}}`,
			"spec.cpu.discovery: Invalid value: belongs to the type Discovery",
		},
		"in of nothing":    {`{spec: {nodeSelector: {matchExpressions: [{key: a, operator: In}]}}}`, "spec.nodeSelector.matchExpressions[0].values: Invalid value: In and NotIn need at least one value"},
		"exists of values": {`{spec: {nodeSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}}`, "Exists and DoesNotExist have no values"},
		"more than text": {
			`{spec: {nodeSelector: {matchExpressions: [{key: a, operator: Gt, values: [b]}]}}}`,
			"Gt and Lt need one value, an integer",
		},
		"operator": {`{spec: {nodeSelector: {matchExpressions: [{key: a, operator: Is}]}}}`, `Unsupported value: "Is"`},
		"locked option": {
			`{spec: {lockedOptions: [the-tag]}}`,
			"spec.lockedOptions[0]: Invalid value: \"the-tag\": must be the name of an option of the VM type, such as panic",
		},
		"tolerates value": {`{spec: {tolerations: [{key: a, operator: Exists, value: b}]}}`, "spec.tolerations[0].value: Invalid value: Exists has no value"},
		"tolerates no key": {
			`{spec: {tolerations: [{value: b}]}}`,
			"spec.tolerations[0].operator: Invalid value: without a key it must be Exists",
		},
		"overlapping": {policy(`{cores: {min: 1, max: 4}}, {cores: {min: 4, max: 8}}`), "spec.sizingPolicies: Invalid value: the ranges of cores of two policies overlap"},
		"cores reversed": {
			policy(`{cores: {min: 4, max: 2}}`),
			"spec.sizingPolicies[0].cores.max: Invalid value: must be at least min",
		},
		"no cores":        {policy(`{}`), "spec.sizingPolicies[0].cores: Required value"},
		"memory reversed": {policy(`{cores: {min: 1, max: 2}, memory: {min: 2Gi, max: 1Gi}}`), "spec.sizingPolicies[0].memory.max: Invalid value: must be at least min"},
		"memory per core": {policy(`{cores: {min: 1, max: 2}, memory: {perCore: {min: 2Gi, max: 1Gi}}}`), "spec.sizingPolicies[0].memory.perCore.max: Invalid value: must be at least min"},
		"memory of words": {policy(`{cores: {min: 1, max: 2}, memory: {min: much}}`), "spec.sizingPolicies[0].memory.min: Invalid value: \"much\": must be a size such as 8Gi or 512Mi"},
		"step of nothing": {policy(`{cores: {min: 1, max: 2}, memory: {step: 0}}`), "spec.sizingPolicies[0].memory.step: Invalid value: must be at least 1Mi"},
		"fraction":        {policy(`{cores: {min: 1, max: 2}, coreFractions: [half]}`), "must be a whole percentage from 1% to 100%, such as 20%"},
		"other default":   {policy(`{cores: {min: 1, max: 2}, coreFractions: [5%], defaultCoreFraction: 6%}`), "spec.sizingPolicies[0].defaultCoreFraction: Invalid value: must be one of coreFractions"},
		"firmware":        {`{spec: {defaults: {firmware: efi}}}`, `spec.defaults.firmware: Unsupported value: "efi"`},
		"networks":        {`{spec: {defaults: {networks: [{}]}}}`, "set exactly one of tap, user and masquerade"},
		"name":            {`{metadata: {name: a.b}}`, "metadata: Invalid value: metadata.name must be a DNS label"},
	}
}
