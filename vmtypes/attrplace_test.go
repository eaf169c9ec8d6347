package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"vmop/vmtypes"
)

// Defaults must be given by name, because a positional default would change its meaning when a parameter is added.
func TestArgumentsOfOptionsAreGivenByName(t *testing.T) {
	t.Parallel()
	for _, call := range []string{
		`attr.string("a")`, `attr.int(1)`, `attr.bool(True)`, `attr.size("1 MiB")`, `attr.file("/a")`,
		`attr.list(attr.int(), [1])`, `attr.dict(attr.int(), {})`, `attr.record({"a": attr.int(default = 1)}, {})`,
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			library, err := vmtypes.Open(folder(t, []txtar.File{{Name: "mine.star", Data: []byte(
				"options = {\"x\": " + call + "}\n\ndef launch(vm, host):\n    return part(executable = \"/bin/qemu\")\n")}}))
			require.NoError(t, err)
			_, err = library.Load(t.Context(), "mine")
			require.ErrorContains(t, err, "must be given by name")
		})
	}
}
