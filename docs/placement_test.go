package docs_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	apiv1 "vmop/api/v1"
)

// yamlBlocks matches the YAML examples of a page.
var yamlBlocks = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// The YAML examples of the page contain only fields of the resource.
func TestExamplesOfPlacement(t *testing.T) {
	t.Parallel()
	all := yamlBlocks.FindAllStringSubmatch(read(t, "tasks/placement.md"), -1)
	require.Len(t, all, 5)
	for _, example := range all {
		require.NoError(t, yaml.UnmarshalStrict([]byte(example[1]), &apiv1.VirtualMachine{}), example[1])
	}
}
