package vmtypestest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/vmtypestest"
	"vmop/vmtypes"
)

func TestAffected(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a.star": "", "b.star": "load(\"a.star\", \"a\")", "c.star": "load(\"b.star\", \"b\")",
		"d.star":      "load(\"gone.star\", \"x\")",
		"c_test.star": "load(\"c.star\", \"c\")", "broken.star": "load(\"a.star\",",
		"c.txtar": "x\n", "testdata/other.txtar": "x\n-- type --\nd\n",
		"e.yaml":      "\"/Runner\": {vmType: b, vm: {name: x}}\n",
		"faulty.yaml": "\"/Runner\": 1\n", "README": "",
	})
	f, err := vmtypestest.Find(dir)
	require.NoError(t, err)
	source, err := vmtypes.ReadSource(dir)
	require.NoError(t, err)
	for changed, want := range map[string]string{
		"a.star":             "a.star b.star c.star c.txtar c_test.star e.yaml",
		"c.star":             "c.star c.txtar c_test.star",
		"c_test.star":        "c_test.star",
		"gone.star":          "d.star testdata/other.txtar",
		"broken.star":        "broken.star",
		"faulty.yaml":        "faulty.yaml",
		"c.txtar d.star":     "c.txtar d.star testdata/other.txtar",
		"README .a.star.swp": "",
	} {
		affected := f.Affected(source, strings.Fields(changed))
		require.Equal(t, want, strings.Join(slices.Sorted(maps.Keys(affected)), " "), changed)
	}
}
