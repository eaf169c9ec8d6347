package vmtypes_test

import (
	"testing"

	"vmop/authoring/vmtypestest"
)

// The example types produce the results that their tests describe.
func TestExamples(t *testing.T) {
	t.Parallel()
	vmtypestest.Run(t, ".")
}
