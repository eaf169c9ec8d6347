package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes"
	"vmop/vmtypes/vmtypestest"
)

const goldens = "testdata/golden"

// The plan of each machine in testdata/golden is as it was.
func TestGoldens(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	vmtypestest.RunGoldens(t, library, goldens, *update)
}

// The tests of the stock types, which say why things are as they are.
func TestStockTypes(t *testing.T) {
	t.Parallel()
	vmtypestest.Run(t, "testdata/tests")
}
