package docs_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	apiv1 "vmop/api/v1"
)

// yamlBlocks are the examples in YAML of a page.
var yamlBlocks = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// The examples of a page are of the resource, and written as it wants them.
func TestExamplesOfPlacement(t *testing.T) {
	t.Parallel()
	all := yamlBlocks.FindAllStringSubmatch(read(t, "tasks/placement.md"), -1)
	require.Len(t, all, 5)
	for _, example := range all {
		require.NoError(t, yaml.UnmarshalStrict([]byte(example[1]), &apiv1.VirtualMachine{}), example[1])
	}
}
