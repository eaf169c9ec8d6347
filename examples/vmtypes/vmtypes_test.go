package vmtypes_test

import (
	"testing"

	"vmop/vmtypes/vmtypestest"
)

// The example types do what they say.
func TestExamples(t *testing.T) {
	t.Parallel()
	vmtypestest.Run(t, ".")
}
