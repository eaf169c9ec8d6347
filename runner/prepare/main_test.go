package prepare

import (
	"context"
	"os"
	"testing"

	"vmop/vmtypes/evaluate"
)

// The test program evaluates types in processes of its own, as programs do.
func TestMain(m *testing.M) {
	evaluate.Serve(context.Background(), nil)
	os.Exit(m.Run())
}
