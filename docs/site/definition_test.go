package site_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"vmop/docs/site"
)

// The row of a field contains its type, its description and its bounds. An object with many fields has its own section.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	document := string(made(t)["reference/virtualmachine.md"])
	for _, row := range []string{
		"`kubectl get vms`, or `virtualmachine`; `apiVersion: vmoperator.jdrupes.org/v1`; in a namespace.",
		"\n### spec.vm\n", "\n#### spec.vm.disks\n", "| [`disks`](#specvmdisks) | list of object | ",
		"| `blockDeviceRefs[].bootOrder` | integer (int32) | Position in the boot order, ", "\n## status\n",
	} {
		require.True(t, strings.Contains(document, row), row)
	}
	list := string(made(t)[site.Reference])
	require.Contains(t, list, "| [VirtualDisk](virtualdisk.md) | VirtualDisk is a disk with its own lifecycle.")
	require.Equal(t, len(made(t))-1, strings.Count(list, "\n| ["))

	documents, err := site.Definitions(fstest.MapFS{"a.yaml": {Data: []byte(`
spec:
  group: example.org
  names: {kind: Thing, plural: things}
  scope: Cluster
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: "A Thing. More."
        properties:
          spec:
            description: What it is.
            required: [list]
            properties:
              list:
                type: array
                maxItems: 3
                items:
                  type: object
                  properties:
                    a|b: {description: "With <marks>, a_b and *.", enum: [x, "*"], default: x}
              map:
                additionalProperties: {type: object, properties: {number: {type: integer, minimum: 1, maximum: 9.5}}}
              size: {x-kubernetes-int-or-string: true, maxLength: 5, x-kubernetes-validations: [{message: want a size}]}
`)}})
	require.NoError(t, err)
	require.Equal(t, "# Thing\n\nA Thing. More.\n\n`kubectl get things`; `apiVersion: example.org/v1`; of the cluster.\n"+
		"\n## spec\n\nWhat it is.\n\n| Field | Type | |\n|---|---|---|\n"+
		"| `list` | list of object | Required. At most 3 of them. |\n"+
		"| `list[].a\\|b` | `x`, `*` | With \\<marks>, a\\_b and \\*. Default: `x`. |\n"+
		"| `map` | map to object |  |\n"+
		"| `map.*.number` | integer | At least 1. At most 9.5. |\n"+
		"| `size` | integer or string | At most 5 characters. Rule: want a size. |\n", string(documents["reference/thing.md"]))
	_, err = site.Definitions(fstest.MapFS{"a.yaml": {Data: []byte("spec: 1")}})
	require.ErrorContains(t, err, "read definition a.yaml: ")
	_, err = site.Definitions(fstest.MapFS{"a.yaml": {Data: []byte("spec: {}")}})
	require.EqualError(t, err, "read definition a.yaml: it has no version")
}
