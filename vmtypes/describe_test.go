package vmtypes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"vmop/vmtypes"
)

const described = `"""mine: a type that says all it can.

    indented
"""

load("@vmtypes//lib/qemu.star", "device")
load("lib.star", "part_of", lib_options = "options")

# Far above.

# What it is
# good for.
LIMIT = 3
_hidden = 1
options = lib_options | {
    "tag": attr.string(default = "a", values = ["a", "b"], doc = "The tag. More of it."),
}

def launch(vm, host):
    """Returns it.

    All of
      it.
    """
    return part_of(vm)

def many(a, b = {"x": [1,
            2]}, *rest, c = "ä" + "b", **more):
    pass

def _private():
    pass
`

const describedLib = `"""Parts."""

options = {
    "size": attr.size(mandatory = True, minimum = "1 MiB"),
    "ports": attr.list(attr.record({"guest": attr.int(doc = "Port.", default = 80, values = [80, 443])}), default = []),
}

def part_of(vm):
    return part(executable = "/bin/qemu")
`

func TestDescription(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open(folder(t, []txtar.File{
		{Name: "mine.star", Data: []byte(described)},
		{Name: "lib.star", Data: []byte(describedLib)},
	}))
	require.NoError(t, err)
	defer library.Close()
	vmType, err := library.Load(t.Context(), "mine")
	require.NoError(t, err)
	d := vmType.Describe()
	require.Equal(t, "mine: a type that says all it can.\n\nindented", d.Doc)
	require.Equal(t, d.Doc, vmType.Doc())
	mebibyte := int64(1 << 20)
	require.Equal(t, []vmtypes.Option{
		{"size", vmtypes.Attr{Type: "size", Mandatory: true, Minimum: &mebibyte, File: "lib.star", Line: 4}},
		{"ports", vmtypes.Attr{
			Type: "list", Default: []any{}, File: "lib.star", Line: 5,
			Of: &vmtypes.Attr{Type: "record", File: "lib.star", Line: 5, Fields: []vmtypes.Option{
				{"guest", vmtypes.Attr{
					Type: "int", Doc: "Port.", Default: int64(80),
					Values: []any{int64(80), int64(443)}, File: "lib.star", Line: 5,
				}},
			}},
		}},
		{"tag", vmtypes.Attr{
			Type: "string", Default: "a", Values: []any{"a", "b"}, Doc: "The tag. More of it.",
			File: "mine.star", Line: 16,
		}},
	}, d.Options)

	require.Len(t, d.Modules, 3)
	mine := d.Modules[0]
	require.Equal(t, []string{"@vmtypes//lib/qemu.star", "lib.star"}, mine.Loads)
	require.Equal(t, []vmtypes.Value{{"LIMIT", 13, "What it is\ngood for."}, {"options", 15, ""}}, mine.Values)
	require.Len(t, mine.Functions, 2)
	require.Equal(t, "launch(vm, host)", mine.Functions[0].Signature())
	require.Equal(t, "Returns it.\n\nAll of\n  it.", mine.Functions[0].Doc)
	require.Equal(t, 19, mine.Functions[0].Line)
	require.Equal(t, `many(a, b = {"x": [1, 2]}, *rest, c = "ä" + "b", **more)`, mine.Functions[1].Signature())
	require.Equal(t, vmtypes.Module{
		Name: "lib.star", Doc: "Parts.", Values: []vmtypes.Value{{"options", 3, ""}},
		Functions: []vmtypes.Function{{Name: "part_of", Line: 8, Parameters: []vmtypes.Parameter{{Name: "vm"}}}},
	}, d.Modules[1])
	require.False(t, d.Stock)

	text, err := json.Marshal(d)
	require.NoError(t, err)
	var again vmtypes.Description
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, d, again, "it survives the way out of another process")
}

func TestDescriptionOfTheStandardType(t *testing.T) {
	t.Parallel()
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	vmType, err := library.Load(t.Context(), "standard")
	require.NoError(t, err)
	d := vmType.Describe()
	require.True(t, d.Stock)
	require.Equal(t, "@vmtypes//standard.star", d.Modules[0].Name)
	require.Equal(t, vmtypes.APIVersion, d.APIVersion)
	for _, o := range d.Options {
		require.NotEmpty(t, o.Doc, o.Name)
		require.True(t, strings.HasPrefix(o.File, "@vmtypes//lib/"), o.File)
	}
	for _, m := range d.Modules {
		require.NotEmpty(t, m.Doc, m.Name)
	}
}
