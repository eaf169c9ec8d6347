package prepare

import (
	"context"
	"os"
	"testing"

	"vmop/vmtypes/evaluate"
)

// The test program evaluates types in separate processes, like the real programs.
func TestMain(m *testing.M) {
	evaluate.Serve(context.Background(), nil)
	os.Exit(m.Run())
}
