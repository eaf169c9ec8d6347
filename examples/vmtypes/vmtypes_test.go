package vmtypes_test

import (
	"testing"

	"vmop/authoring/vmtypestest"
)

// The example types do what they say.
func TestExamples(t *testing.T) {
	t.Parallel()
	vmtypestest.Run(t, ".")
}
